"""The table of the SQLite store with what the server knows of each party at the moment."""

import sqlite3
from collections.abc import Sequence

from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_server.store.base import PartyRecord


def replace_parties(connection: sqlite3.Connection, parties: Sequence[PartyRecord]) -> None:
    """Replaces the content of the table."""
    connection.execute("DELETE FROM parties")
    connection.executemany(
        "INSERT INTO parties VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(one.party, one.connected, one.since, one.run, one.round_id, one.phase, one.reason) for one in parties],
    )


def read_parties(connection: sqlite3.Connection) -> tuple[PartyRecord, ...]:
    """The content of the table, by name."""
    rows = connection.execute(
        "SELECT party, connected, since, run, round_id, phase, reason FROM parties ORDER BY party"
    )
    return tuple(
        PartyRecord(
            ClientId(party),
            bool(connected),
            since,
            None if run is None else RunId(run),
            None if round_id is None else RoundId(round_id),
            phase,
            reason,
        )
        for party, connected, since, run, round_id, phase, reason in rows
    )
