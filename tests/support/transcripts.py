"""Three parties and their server, with nothing but the records of a run."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from fenchel_client.transcript import OTHER_STORY, StampedRecord, Transcript
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment, seed_to_bytes
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.records import round_result_to_bytes, round_task_from_bytes
from fenchel_server.algorithms.transcript import Transcript as ServerTranscript

A, B, C = CLIENTS = tuple(ClientId(name) for name in "abc")
KEY, SEED, VIEW = bytes(range(32)), 7, bytes(32)
WORK = "work"


@dataclass(frozen=True)
class Listed:
    """A book that lists the records, and refuses the choice `b"not that"`."""

    records: tuple[StampedRecord, ...] = ()
    rounds_done: int = 0

    def company(self, _phase: str) -> None:
        return None

    def after(self, record: StampedRecord) -> "Listed":
        if record.choices == b"not that":
            raise InvalidInput("choices: not that")
        return Listed((*self.records, record))


class Run:
    """Three parties and the records of their server."""

    def __init__(self) -> None:
        self.parties = {client: self.transcript(client) for client in CLIENTS}
        self.server = ServerTranscript(CLIENTS, [])
        self.attempt = 1
        self.phase(0, LAYOUT, choices=seed_to_bytes(SEED))

    @staticmethod
    def transcript(party: ClientId, *, attempt: int = 1) -> Transcript[Listed]:
        return Transcript(VIEW, Listed(), party=party, clients=CLIENTS, key=KEY, seed=SEED, attempt=attempt)

    def restart(self, party: ClientId) -> None:
        """The party has forgotten all records."""
        self.parties[party] = self.transcript(party, attempt=0)
        self.server.forget([party])

    def restored(self, records: Iterable[bytes]) -> None:
        """The server goes on from these records in the next attempt."""
        self.server = ServerTranscript(CLIENTS, records)
        self.attempt += 1

    def tell(self, party: ClientId) -> None:
        first, records, _ = round_task_from_bytes(self.server.enclosed(party, b""))
        self.parties[party].take(first, records)

    def begin(self, round_id: int) -> None:
        self.server.add(Moment(self.attempt, RoundId(round_id), ROUND))

    def result(self, party: ClientId, moment: Moment) -> bytes:
        stamp = self.parties[party].answering(moment)
        confirmation = self.parties[party].confirmation(stamp)
        return round_result_to_bytes(b"", nonce=stamp.nonce, confirmation=confirmation)

    def phase(
        self, round_id: int, phase: str = WORK, *, among: tuple[ClientId, ...] = CLIENTS, choices: bytes = b""
    ) -> None:
        """All these parties answer, and the server puts them on record."""
        moment = Moment(self.attempt, RoundId(round_id), phase)
        for party in among:
            self.tell(party)
        for party in among:
            self.server.opened(party, self.result(party, moment))
        self.server.add(moment, contributors=among, choices=choices)

    def round(self, round_id: int, *, among: tuple[ClientId, ...] = CLIENTS) -> None:
        self.begin(round_id)
        self.phase(round_id, among=among)

    def phases_of(self, party: ClientId) -> list[tuple[int, int, str]]:
        moments = [record.moment for record in self.parties[party].book.records]
        return [(moment.attempt, moment.round, moment.phase) for moment in moments]


def refuses(run: Run, party: ClientId, message: str) -> None:
    with pytest.raises(Refusal, match=message) as caught:
        run.tell(party)
    assert caught.value.public_reason == OTHER_STORY
