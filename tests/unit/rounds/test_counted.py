"""What the server saw is counted as it passes, and is on record with the round."""

import pytest

from fenchel.v1 import alignment_pb2
from fenchel_common.algorithms import SETTINGS
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.leakage import Direction, Ledger, Sight, Tally, Visibility
from fenchel_common.wire.alignment import AlignmentMethod, start_to_bytes
from fenchel_server.rounds.counted import CountedTransport
from fenchel_server.rounds.ledger import RoundLedger
from fenchel_server.rounds.transport import Gathered, PhaseId
from support.inprocess import InProcessTransport
from support.records import Clock

NORTH, SOUTH = ClientId("north"), ClientId("south")
FEDAVG = SETTINGS["fedavg"].parse({})
PSEUDONYMS = Sight("AlignmentListing.elements", Visibility.PSEUDONYM, Visibility.PSEUDONYM)
METHOD = Sight("AlignmentStart.method", Visibility.PUBLIC, Visibility.PUBLIC)


def listing(rows: int) -> bytes:
    return alignment_pb2.AlignmentListing(elements=bytes(32 * rows)).SerializeToString()


def gather(phase: str) -> Gathered:
    transport = InProcessTransport(
        {NORTH: lambda _: listing(3), SOUTH: lambda _: listing(5)},
        absent=lambda _, client: "asleep" if client == SOUTH else None,
    )
    task = start_to_bytes(AlignmentMethod.RING)
    return CountedTransport(transport, FEDAVG).gather(
        PhaseId(RunId("run-1"), RoundId(0), phase), {NORTH: task, SOUTH: task}, deadline_s=1.0
    )


def test_tasks_and_results_are_counted_for_each_party() -> None:
    seen = gather("align_0").seen
    assert seen.tally(NORTH, Direction.UP)[PSEUDONYMS] == 3
    assert seen.tally(NORTH, Direction.DOWN)[METHOD] == 1


def test_the_task_of_a_party_that_does_not_answer_counts_all_the_same() -> None:
    seen = gather("align_0").seen
    assert seen.tally(SOUTH, Direction.DOWN)[METHOD] == 1
    assert seen.tally(SOUTH, Direction.UP) == Tally()


def test_a_phase_that_the_catalogue_does_not_know_is_never_sent() -> None:
    with pytest.raises(InvalidInput, match="not a phase"):
        gather("tell_all")


def test_a_round_has_on_record_what_all_its_tries_showed() -> None:
    ledger, twice = RoundLedger(Clock()), Ledger()
    for _ in range(2):
        gathered = gather("align_0")
        ledger.begin_try()
        ledger.add_phase("align_0", gathered, seconds=1.0)
        twice.add_all(gathered.seen)
    assert Ledger.from_json(ledger.record(RoundId(0)).seen) == twice
    assert twice.tally(NORTH, Direction.UP)[PSEUDONYMS] == 6


def test_a_run_that_ends_keeps_what_was_seen_since_the_last_round_and_at_earlier_ends() -> None:
    ledger, before = RoundLedger(Clock()), gather("align_0").seen
    ledger.add_phase("align_0", gather("align_0"), seconds=1.0)
    whole = Ledger.from_json(ledger.seen_with(before.to_json()))
    assert whole.tally(NORTH, Direction.UP)[PSEUDONYMS] == 6
