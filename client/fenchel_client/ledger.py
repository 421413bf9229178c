"""A party's own counts of the values that it sent and got, in `RUN.ledger.json` of its state folder.

The file contains counts and no values. Only its owner can read it, and it outlives the run.
"""

import json
from pathlib import Path

from fenchel_client.privatefiles import read_private, write_private
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RunId
from fenchel_common.leakage import Direction, Ledger
from fenchel_common.wire.catalogue import messages_of
from fenchel_common.wire.counting import values_in


class PartyLedger:
    """The ledger of one party in one run; it continues the counts that are on disk already."""

    def __init__(self, path: Path, *, party: ClientId, run: RunId) -> None:
        self.run = run
        self._path = path
        self._party = party
        self._ledger = read_party_ledger(path)[1] if path.exists() else Ledger()
        self._saved = True

    def count(self, direction: Direction, phase: str, body: bytes, settings: AlgorithmSettings | None) -> None:
        """Counts the values in a task (down) or in a result (up)."""
        messages = messages_of(phase, settings)
        kind = messages.task if direction is Direction.DOWN else messages.result
        self._ledger.add(self._party, direction, values_in(kind, body, inside=messages.inside))
        self._saved = False

    def save(self) -> None:
        """Writes the file if there are new counts.

        A process that is killed loses the counts since the last call. The file is not forced to disk, because the
        other parties would have to wait for it.
        """
        if self._saved:
            return
        record = {"run": self.run, "party": self._party, "seen": self._ledger.to_mapping()}
        write_private(self._path, json.dumps(record).encode(), durable=False)
        self._saved = True


def read_party_ledger(path: Path) -> tuple[ClientId, Ledger]:
    """The party that the file belongs to, and its counts."""
    try:
        record = json.loads(read_private(path))
        return ClientId(record["party"]), Ledger.from_mapping(record["seen"])
    except (ValueError, KeyError, TypeError, InvalidInput):
        raise InvalidInput(f"{path}: not a party's ledger; the file was truncated or altered") from None
