"""The records of a run at parties: which ones they take, and which stories they refuse."""

from dataclasses import replace

import pytest

from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import RoundId
from fenchel_common.records import ROUND, Moment, Record, seed_to_bytes, view_after
from fenchel_common.setup import LAYOUT
from fenchel_common.wire.records import record_from_bytes, record_to_bytes, round_result_to_bytes
from support.transcripts import CLIENTS, SEED, VIEW, WORK, A, B, C, Run, refuses


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
    run.server.opened(A, result)
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
    run.phase(1, "more")
    layout, beginning, work, more = run.server.records
    with pytest.raises(Refusal, match="left out records"):
        run.transcript(C).take(1, [beginning, work, more])
    with pytest.raises(Refusal, match="out of turn"):
        run.transcript(C).take(0, [layout, work, more])
    # Without the phase in between, the confirmations are over another view.
    with pytest.raises(Refusal, match="has not confirmed"):
        run.transcript(C).take(0, [layout, beginning, more])


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
    other = replace(whole, moment=Moment(1, RoundId(1), "other"))
    with pytest.raises(Refusal, match="has not confirmed"):
        run.parties[A].take(2, [record_to_bytes(other, CLIENTS)])
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
    for party in (A, B):
        run.server.opened(party, run.result(party, moment))
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


@pytest.mark.parametrize(
    "moment",
    [
        Moment(1, RoundId(1), ROUND),
        Moment(2, RoundId(1), ROUND),
        Moment(1, RoundId(0), ROUND),
        Moment(2, RoundId(0), ROUND),
        Moment(1, RoundId(3), ROUND),
        Moment(0, RoundId(2), ROUND),
        Moment(1, RoundId(0), WORK),
        Moment(0, RoundId(1), WORK),
        Moment(2, RoundId(1), WORK),
        Moment(1, RoundId(2), WORK),
    ],
    ids=str,
)
def test_records_follow_each_other_without_gaps(moment: Moment) -> None:
    run = Run()
    run.round(1)
    run.tell(A)
    with pytest.raises(Refusal, match="out of turn"):
        run.parties[A].take(3, [record_to_bytes(Record(moment), CLIENTS)])
    run.parties[A].take(3, [record_to_bytes(Record(Moment(1, RoundId(1), WORK)), CLIENTS)])
    run.parties[A].take(4, [record_to_bytes(Record(Moment(2, RoundId(2), ROUND)), CLIENTS)])


def test_the_record_of_the_layout_is_the_first_and_no_other() -> None:
    beginning = record_to_bytes(Record(Moment(1, RoundId(1), ROUND)), CLIENTS)
    with pytest.raises(Refusal, match="out of turn"):
        Run.transcript(A).take(0, [beginning])
    run = Run()
    run.round(1)
    again = record_to_bytes(Record(Moment(1, RoundId(1), LAYOUT), (), seed_to_bytes(SEED)), CLIENTS)
    run.tell(A)
    with pytest.raises(Refusal, match="out of turn"):
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
