"""The records of each run in the SQLite store: a commit adds the newest, and costs the same however old the run is."""

import sqlite3
from collections.abc import Sequence

from fenchel_common.ids import RunId


def add_to_transcript(connection: sqlite3.Connection, run: RunId, records: Sequence[bytes]) -> None:
    """Adds records behind those that the run has."""
    ((first,),) = connection.execute("SELECT count(*) FROM transcripts WHERE run = ?", (run,))
    connection.executemany(
        "INSERT INTO transcripts VALUES (?, ?, ?)",
        [(run, position, record) for position, record in enumerate(records, first)],
    )


def read_transcript(connection: sqlite3.Connection, run: RunId) -> tuple[bytes, ...]:
    """All records of the run, in their order."""
    rows = connection.execute("SELECT record FROM transcripts WHERE run = ? ORDER BY position", (run,))
    return tuple(record for (record,) in rows)
