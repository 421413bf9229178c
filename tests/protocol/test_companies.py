"""Rounds with masks that are begun anew: with the same parties as often as need be, with other parties a few times."""

import json
from pathlib import Path

import pytest

from fenchel_client.runrecords import MAX_CHANGES_OF_COMPANY, OTHER_COMPANY
from fenchel_client.statefolder import StateFolder
from fenchel_common.algorithms.averaging.rails import LOCAL
from fenchel_common.algorithms.corrective.pairs import PAIR_DUALS
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL
from fenchel_common.ids import ClientId, RoundId
from fenchel_server.rounds.transport import PhaseId
from fenchel_server.store import RunStatus
from support.ceremony import RUN, config
from support.federation import InProcessFederation
from support.records import RUN as FEDERATION_RUN
from support.repeats import Repeats
from support.tables import named_shards, small_dataset

FEDAVG = config(algorithm="fedavg", settings={"lambda": 0.1, "measure_every": 0}, cipher="masks", seed=3)
CORRECTIVE = config(settings={"lambda": 0.1, "local": "corrective"}, stop={"gap": None}, cipher="masks", seed=3)
PAIRS = config(settings={"lambda": 0.1, "participation": "fraction:1.0"}, stop={"gap": None}, cipher="masks", seed=3)
PAPER = config(settings={"lambda": 0.1, "local": "paper", "h": 1.0}, stop={"gap": None}, cipher="masks", seed=3)


@pytest.fixture
def run(tmp_path: Path) -> Repeats:
    return Repeats(tmp_path, FEDAVG, phase=LOCAL)


def changes(run: Repeats) -> set[int]:
    """How often each party has contributed in a second company, by its file."""
    folders = (StateFolder(run.federation.directory / client) for client in run.everybody)
    return {kept.changes_of_company for folder in folders if (kept := folder.run(RUN)) is not None}


def refused_by_all(run: Repeats, among: frozenset[ClientId]) -> bool:
    return not run.attempted(among) and run.refusals == dict.fromkeys(among, OTHER_COMPANY)


def test_repeats_with_the_same_parties_do_not_count(run: Repeats) -> None:
    """Server and parties are killed again and again; one result is lost each time."""
    for _ in range(2 * MAX_CHANGES_OF_COMPANY):
        assert not run.attempted(run.everybody, losing=run.everybody - run.without(1))
        run.restart(run.everybody)
    assert run.attempted(run.everybody, commit=True)
    assert changes(run) == {0}


def test_a_round_goes_on_without_the_party_that_failed(run: Repeats) -> None:
    assert not run.attempted(run.everybody, losing=run.everybody - run.without(1))
    assert run.attempted(run.without(1), commit=True)
    assert run.attempted(run.everybody, commit=True)


def test_a_third_company_from_one_state_is_refused_and_the_earlier_ones_still_pass(run: Repeats) -> None:
    assert run.attempted(run.everybody)
    assert run.attempted(run.without(1))
    run.restart(run.everybody)
    assert not run.attempted(run.without(2))
    assert run.refusals == dict.fromkeys(run.without(1, 2), OTHER_COMPANY)
    assert run.attempted(run.without(1))
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.without(2), commit=True), "from the next state"


def test_a_party_changes_company_only_so_often_in_a_run_and_takes_part_all_the_same(run: Repeats) -> None:
    for _ in range(MAX_CHANGES_OF_COMPANY):
        assert run.attempted(run.everybody)
        run.restart(run.everybody)
        assert run.attempted(run.without(3), commit=True)
    assert run.attempted(run.everybody)
    run.restart(run.everybody)
    assert refused_by_all(run, run.without(3))
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.without(3), commit=True)


def test_a_second_set_up_does_not_make_a_party_forget(run: Repeats) -> None:
    assert run.attempted(run.everybody)
    assert run.attempted(run.without(0), commit=True)
    assert run.attempted(run.everybody, commit=True)
    run.set_up()
    assert run.attempted(run.everybody)
    assert not run.attempted(run.without(1))
    assert run.refusals == dict.fromkeys(run.without(0, 1), OTHER_COMPANY)


def test_other_companies_do_not_count_where_two_parties_alone_hold_each_feature(tmp_path: Path) -> None:
    """Either of them knows the other's part by subtraction."""
    run = Repeats(tmp_path, FEDAVG, phase=LOCAL, grid=(2, 2))
    for out in range(4):
        assert run.attempted(run.without(out))
    assert changes(run) == {0}


def test_a_run_ends_though_a_party_fails_in_every_round(tmp_path: Path) -> None:
    """First the others go on without it; once they have changed company too often, they wait for it."""
    terms = config(
        algorithm="fedavg",
        settings={"lambda": 0.1, "measure_every": 0},
        cipher="masks",
        stop={"rounds": 6},
        round={"quorum": 0.5},
    )
    shards = named_shards(small_dataset(40, 4), grid=(4, 1))
    federation = InProcessFederation(tmp_path, shards, terms, release_model_to_server=False)
    failed_in = set[RoundId]()

    def fails_once_a_round(phase: PhaseId, client: ClientId) -> str | None:
        if client != "p2" or phase.phase != LOCAL or phase.round in failed_in:
            return None
        failed_in.add(phase.round)
        return "no result"

    federation.transport.absent = fails_once_a_round
    ending = federation.drive()
    assert ending.status is RunStatus.COMPLETED, ending.reason
    rounds = [json.loads(record.metrics) for record in federation.store.rounds(FEDERATION_RUN)]
    trained = [len(metrics["participants"]) for metrics in rounds if metrics.get("participants")]
    assert trained == [3] * MAX_CHANGES_OF_COMPANY + [4] * (6 - MAX_CHANGES_OF_COMPANY)


def test_corrective_rounds_are_bounded_where_they_begin_with_the_same_points(tmp_path: Path) -> None:
    """A round that begins with the anchor alone gives other values than one that remembers all points."""
    run = Repeats(tmp_path, CORRECTIVE, phase=LOCAL_DUAL)
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.everybody)
    assert run.attempted(run.without(1))
    assert changes(run) == {0}
    assert run.attempted(run.without(2))
    assert changes(run) == {0, 1}
    run.restart(run.everybody)
    assert not run.attempted(run.without(3))
    assert set(run.refusals.values()) == {OTHER_COMPANY}
    assert run.attempted(run.everybody, commit=True), "with all points, as before"


def test_rounds_of_pairs_are_bounded_too(tmp_path: Path) -> None:
    run = Repeats(tmp_path, PAIRS, phase=PAIR_DUALS)
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.everybody)
    assert run.attempted(run.without(1))
    assert changes(run) == {0, 1}
    run.restart(run.everybody)
    assert not run.attempted(run.without(2))
    assert set(run.refusals.values()) == {OTHER_COMPANY}
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.without(2), commit=True), "from the next state"


def test_rounds_with_the_local_steps_of_the_paper_are_bounded_where_several_hold_the_samples(tmp_path: Path) -> None:
    run = Repeats(tmp_path, PAPER, phase=INNER_PRODUCT, grid=(1, 4))
    assert run.attempted(run.everybody)
    assert run.attempted(run.without(1))
    run.restart(run.everybody)
    assert not run.attempted(run.without(2))
    assert run.refusals == dict.fromkeys(run.without(1, 2), OTHER_COMPANY)
    assert run.attempted(run.everybody, commit=True)
    assert run.attempted(run.without(2), commit=True), "from the next state"
    assert changes(run) == {1}
