"""What a party counts of its own: the values that it sent and got, in `RUN.ledger.json` of its state folder.

The file has numbers alone, is readable by its owner alone, and outlives the run.
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
    """The ledger of one party in one run; what is on file already is gone on with."""

    def __init__(self, path: Path, *, party: ClientId, run: RunId) -> None:
        self.run = run
        self._path = path
        self._party = party
        self._ledger = read_party_ledger(path)[1] if path.exists() else Ledger()
        self._saved = True

    def count(self, direction: Direction, phase: str, body: bytes, settings: AlgorithmSettings | None) -> None:
        """Counts a task (down) or a result (up)."""
        messages = messages_of(phase, settings)
        kind = messages.task if direction is Direction.DOWN else messages.result
        self._ledger.add(self._party, direction, values_in(kind, body, inside=messages.inside))
        self._saved = False

    def save(self) -> None:
        """Writes the file anew if there is anything new.

        A process that is killed loses the counts of the task in work: no reason to make the others wait for a disk.
        """
        if self._saved:
            return
        held = {"run": self.run, "party": self._party, "seen": self._ledger.to_mapping()}
        write_private(self._path, json.dumps(held).encode(), durable=False)
        self._saved = True


def read_party_ledger(path: Path) -> tuple[ClientId, Ledger]:
    """The party that the file belongs to, and what it counted."""
    try:
        held = json.loads(read_private(path))
        return ClientId(held["party"]), Ledger.from_mapping(held["seen"])
    except (ValueError, KeyError, TypeError, InvalidInput):
        raise InvalidInput(f"{path}: not a party's ledger; it was cut or altered") from None
