"""Reads the rounds of a run piece by piece, for views that follow a long run without holding up its server.

A round's record has two parts of very different size: its figures, and the costs and values seen of every client, which
grow with the number of parties. Each call is one short read transaction, so that SQLite's log never waits for a view.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fenchel_common import jsonrecord
from fenchel_common.errors import StateDamaged, StoreError
from fenchel_common.ids import RoundId, RunId
from fenchel_server.store.base import AbsenceRecord
from fenchel_server.store.schema import connect
from fenchel_server.store.statedir import DATABASE_NAME


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The small part of a round's record; `metrics` is the mapping of a `RoundMetrics`, empty for the set-up."""

    round_id: RoundId
    metrics: Mapping[str, Any]
    seconds: Mapping[str, float]
    bytes_up: int
    bytes_down: int
    absences: tuple[AbsenceRecord, ...]


@dataclass(frozen=True, slots=True)
class RoundDetails:
    """The large part of a round's record: for each client its costs, and the values that passed, as a mapping."""

    round_id: RoundId
    clients: Mapping[str, Mapping[str, float]]
    seen: Mapping[str, Any]


class RoundSlices:
    """The rounds in a state folder, read and never written; for one thread at a time."""

    def __init__(self, directory: Path) -> None:
        try:
            self._connection = connect(directory / DATABASE_NAME, read_only=True)
        except sqlite3.Error as error:
            raise _unreadable(error) from error

    def close(self) -> None:
        self._connection.close()

    def version(self) -> int:
        """A number that changes whenever another process has written to the store."""
        ((version,),) = self._rows("PRAGMA data_version")
        return int(version)

    def figures(self, run: RunId, *, first: int, most: int) -> list[RoundFigures]:
        """The small parts of at most so many committed rounds, from the round `first` on."""
        last = first + most - 1
        absences: dict[int, list[AbsenceRecord]] = {}
        for round_id, client, phase, reason in self._rows(
            "SELECT round_id, client, phase, reason FROM absences WHERE run = ? AND round_id BETWEEN ? AND ? "
            "ORDER BY round_id, position",
            (run, first, last),
        ):
            absences.setdefault(round_id, []).append(AbsenceRecord(client, phase, reason))
        return [
            RoundFigures(
                RoundId(round_id),
                jsonrecord.read_mapping(metrics),
                jsonrecord.read_mapping(seconds),
                up,
                down,
                tuple(absences.get(round_id, ())),
            )
            for round_id, metrics, seconds, up, down in self._rows(
                "SELECT round_id, metrics, seconds, bytes_up, bytes_down FROM rounds "
                "WHERE run = ? AND round_id BETWEEN ? AND ? ORDER BY round_id",
                (run, first, last),
            )
        ]

    def details(self, run: RunId, *, first: int, most: int) -> list[RoundDetails]:
        """The large parts of at most so many committed rounds, from the round `first` on."""
        return [
            RoundDetails(RoundId(round_id), jsonrecord.read_mapping(clients), jsonrecord.read_mapping(seen))
            for round_id, clients, seen in self._rows(
                "SELECT round_id, clients, seen FROM rounds WHERE run = ? AND round_id >= ? ORDER BY round_id LIMIT ?",
                (run, first, most),
            )
        ]

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
            raise _unreadable(error) from error
        except sqlite3.DatabaseError as error:
            raise StateDamaged(f"the state database is damaged ({error}); restore it from a backup") from error


def _unreadable(error: sqlite3.Error) -> StoreError:
    return StoreError(f"the state database cannot be read: {error}")
