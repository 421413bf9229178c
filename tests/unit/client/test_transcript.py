"""The records of a run at parties: which ones they take, when they go back, and which stories they refuse."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from fenchel_client.transcript import OTHER_STORY, StampedRecord, Transcript
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment, Record, seed_to_bytes, view_after
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.records import record_from_bytes, record_to_bytes, round_result_to_bytes, round_task_from_bytes
from fenchel_server.algorithms.transcript import Transcript as ServerTranscript

A, B, C = CLIENTS = tuple(ClientId(name) for name in "abc")
KEY, SEED, VIEW = bytes(range(32)), 7, bytes(32)
WORK = "work"


@dataclass(frozen=True)
class Listed:
    """A book that lists the records, and refuses the choice `b"not that"`."""

    records: tuple[StampedRecord, ...] = ()

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
        self.server.bodies({party: self.result(party, moment) for party in among})
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


def test_parties_that_were_told_the_same_have_the_same_view_and_book() -> None:
    run = Run()
    run.round(1)
    run.round(2)
    for party in CLIENTS:
        run.tell(party)
    assert len({run.parties[party].view for party in CLIENTS}) == 1
    assert run.parties[A].book == run.parties[C].book
    assert run.phases_of(A) == [(1, 0, LAYOUT), (1, 1, ROUND), (1, 1, WORK), (1, 2, ROUND), (1, 2, WORK)]
    assert set(run.parties[A].preparations) == set(CLIENTS)


def test_the_stamps_of_a_record_are_those_of_the_messages() -> None:
    run = Run()
    run.begin(1)
    run.tell(A)
    moment = Moment(1, RoundId(1), WORK)
    stamp = run.parties[A].answering(moment)
    result = round_result_to_bytes(b"", nonce=stamp.nonce, confirmation=run.parties[A].confirmation(stamp))
    run.server.bodies({A: result})
    run.server.add(moment, contributors=[A])
    run.tell(B)
    assert run.parties[B].book.records[-1].stamps == {A: stamp}


def test_records_that_a_party_has_are_skipped() -> None:
    run = Run()
    run.round(1)
    run.tell(A)
    view, book = run.parties[A].view, run.parties[A].book
    run.parties[A].take(0, run.server.records)
    run.parties[A].take(1, run.server.records[1:])
    assert (run.parties[A].view, run.parties[A].book) == (view, book)


def test_a_party_that_was_away_or_restarted_catches_up() -> None:
    run = Run()
    run.round(1, among=(A, B))
    run.round(2, among=(A, B))
    run.restart(B)
    run.round(3)
    for party in CLIENTS:
        run.tell(party)
    assert len({run.parties[party].view for party in CLIENTS}) == 1


def test_a_record_that_is_left_out_is_noticed() -> None:
    run = Run()
    run.round(1)
    with pytest.raises(Refusal, match="left out records"):
        run.transcript(C).take(1, run.server.records[1:])
    # Without the beginning of the round in between, the confirmations are over another view.
    with pytest.raises(Refusal, match="has not confirmed"):
        run.transcript(C).take(0, [run.server.records[0], run.server.records[2]])


def test_a_contribution_that_its_party_did_not_confirm_is_refused() -> None:
    run = Run()
    run.round(1)
    whole = record_from_bytes(run.server.records[-1], CLIENTS)
    given = whole.given
    forged = [
        replace(given[1], nonce=bytes(16)),
        replace(given[1], confirmation=bytes(16)),
        replace(given[1], nonce=given[0].nonce),
        replace(given[0], party=B),
    ]
    for one in forged:
        record = replace(whole, given=(given[0], one, given[2]))
        with pytest.raises(Refusal, match="has not confirmed"):
            run.parties[A].take(2, [record_to_bytes(record, CLIENTS)])
    for moment in (Moment(2, RoundId(1), WORK), Moment(1, RoundId(2), WORK), Moment(1, RoundId(1), "other")):
        with pytest.raises(Refusal, match="has not confirmed"):
            run.parties[A].take(2, [record_to_bytes(replace(whole, moment=moment), CLIENTS)])
    run.tell(A)


def test_a_server_that_leaves_a_contribution_out_does_so_for_all() -> None:
    """Two parties that are told of different contributors cannot confirm each other's records."""
    run = Run()
    run.round(1)
    whole = record_from_bytes(run.server.records[-1], CLIENTS)
    fewer = record_to_bytes(replace(whole, given=whole.given[:2]), CLIENTS)
    run.parties[A].take(2, [fewer])
    run.tell(B)
    assert run.parties[A].view != run.parties[B].view
    run.begin(2)
    moment = Moment(1, RoundId(2), WORK)
    beginning = run.server.records[-1]
    run.parties[A].take(3, [beginning])
    run.tell(B)
    run.server.bodies({A: run.result(A, moment), B: run.result(B, moment)})
    run.server.add(moment, contributors=[A, B])
    refuses(run, B, "has not confirmed")
    with pytest.raises(Refusal, match="has not confirmed"):
        run.parties[A].take(4, [run.server.records[-1]])


def test_other_choices_make_another_view() -> None:
    run = Run()
    layout = run.server.records[0]
    views = set()
    for choices in (b"", b"one", b"other"):
        party = run.transcript(A)
        record = record_to_bytes(Record(Moment(1, RoundId(1), ROUND), (), choices), CLIENTS)
        party.take(0, [layout, record])
        assert party.view == view_after(view_after(VIEW, layout), record)
        views.add(party.view)
    assert len(views) == 3


def test_the_last_round_can_be_repeated_in_a_higher_attempt() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.restored(committed)
    run.round(2)
    for party in CLIENTS:
        run.tell(party)
    assert run.phases_of(A) == [(1, 0, LAYOUT), (1, 1, ROUND), (1, 1, WORK), (2, 2, ROUND), (2, 2, WORK)]
    assert len({run.parties[party].view for party in CLIENTS}) == 1


def test_a_round_that_was_begun_alone_can_be_repeated_too() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.begin(2)
    run.tell(A)
    run.restored(committed)
    run.round(2)
    run.tell(A)
    assert run.phases_of(A)[-2:] == [(2, 2, ROUND), (2, 2, WORK)]


def test_a_round_is_not_repeated_in_the_same_attempt() -> None:
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.tell(A)
    run.server = ServerTranscript(CLIENTS, committed)
    run.server.add(Moment(1, RoundId(2), ROUND), choices=b"other")
    refuses(run, A, "another story of earlier rounds")


def test_a_server_restored_from_an_older_backup_is_refused() -> None:
    run = Run()
    run.round(1)
    old = run.server.records
    for round_id in (2, 3, 4):
        run.round(round_id)
    run.tell(A)
    run.restored(old)
    run.begin(2)
    refuses(run, A, "restored from an older backup")
    assert run.phases_of(A)[-1] == (1, 4, WORK)


def test_a_party_does_not_go_back_into_the_middle_of_a_round() -> None:
    run = Run()
    run.begin(1)
    run.phase(1)
    run.phase(1, "more")
    run.tell(A)
    run.restored(run.server.records[:3])
    run.begin(2)
    refuses(run, A, "another story")


def test_a_repeated_round_leaves_nothing_of_the_rounds_after_it() -> None:
    """A party that repeats round 2 cannot be sent to the end of the round 2 that it has forgotten."""
    run = Run()
    run.round(1)
    committed = run.server.records
    run.round(2)
    run.begin(3)
    run.tell(A)
    run.restored(committed)
    run.round(2)
    run.phase(2, "more")
    run.tell(A)
    forgotten = len(committed) + 2
    run.restored(run.server.records[:forgotten])
    run.begin(3)
    refuses(run, A, "another story")


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        (Moment(1, RoundId(1), ROUND), "begins a second time"),
        (Moment(2, RoundId(1), ROUND), "begins a second time"),
        (Moment(1, RoundId(0), ROUND), "older than the one before"),
        (Moment(2, RoundId(0), ROUND), "begins a second time"),
        (Moment(1, RoundId(0), WORK), "older than the one before"),
        (Moment(0, RoundId(1), WORK), "older than the one before"),
        (Moment(1, RoundId(3), ROUND), "left out the beginning of a round"),
        (Moment(2, RoundId(3), ROUND), "left out the beginning of a round"),
        (Moment(1, RoundId(2), WORK), "left out the beginning of a round"),
        (Moment(2, RoundId(1), WORK), "another attempt"),
    ],
)
def test_records_go_forwards_one_round_after_another(moment: Moment, message: str) -> None:
    run = Run()
    run.round(1)
    run.tell(A)
    with pytest.raises(Refusal, match=message):
        run.parties[A].take(3, [record_to_bytes(Record(moment), CLIENTS)])


def test_the_record_of_the_layout_is_the_first_and_no_other() -> None:
    beginning = record_to_bytes(Record(Moment(1, RoundId(1), ROUND)), CLIENTS)
    with pytest.raises(Refusal, match="first"):
        Run.transcript(A).take(0, [beginning])
    run = Run()
    run.round(1)
    again = record_to_bytes(Record(Moment(1, RoundId(1), LAYOUT), (), seed_to_bytes(SEED)), CLIENTS)
    run.tell(A)
    with pytest.raises(Refusal, match="first"):
        run.parties[A].take(3, [again])
    assert set(run.parties[A].preparations) == set(CLIENTS)


def test_another_seed_than_that_of_the_parties_is_refused() -> None:
    record = Record(Moment(1, RoundId(0), LAYOUT), (), seed_to_bytes(SEED + 1))
    with pytest.raises(Refusal, match="another seed"):
        Run.transcript(A).take(0, [record_to_bytes(record, CLIENTS)])


def test_a_choice_that_the_book_does_not_admit_is_refused_with_its_reason() -> None:
    run = Run()
    view = run.parties[A].view
    run.server.add(Moment(1, RoundId(1), ROUND), choices=b"not that")
    with pytest.raises(Refusal) as caught:
        run.tell(A)
    assert caught.value.public_reason == "it refused a choice of the server: choices: not that"
    assert run.parties[A].view != view  # the record of the layout was taken
    assert run.phases_of(A) == [(1, 0, LAYOUT)]


def test_a_task_of_another_round_than_the_newest_record_is_not_answered() -> None:
    run = Run()
    run.begin(1)
    run.tell(A)
    run.parties[A].answering(Moment(1, RoundId(1), WORK))
    for attempt, round_id in ((1, 2), (2, 1), (1, 0)):
        with pytest.raises(Refusal, match="another round"):
            run.parties[A].answering(Moment(attempt, RoundId(round_id), WORK))


def test_malformed_records_are_refused_before_anything_is_taken() -> None:
    run = Run()
    for data in (b"", b"\xff", b"record"):
        with pytest.raises((InvalidInput, Refusal)):
            run.parties[A].take(0, [data])


def test_two_stamps_of_the_same_moment_differ() -> None:
    run = Run()
    run.begin(1)
    run.tell(A)
    moment = Moment(1, RoundId(1), WORK)
    one, other = run.parties[A].answering(moment), run.parties[A].answering(moment)
    assert one.nonce != other.nonce
    assert run.parties[A].confirmation(one) != run.parties[A].confirmation(other)
