"""HyFDCA with corrective steps in federations in which a party has no labels: label holders tell it the vertices."""

import pytest

from fenchel_common.data.partition import partition
from fenchel_common.wire import corrective as wire
from fenchel_server.contract import Outcome
from support.corrective import CASE, LOSSES, Ascent, combinations_of, error_of, halves_of, settings
from support.problems import problem
from support.simulation import Simulation


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("grid", [(2, 2), (1, 4)])
def test_parties_without_labels_take_part_but_give_neither_point_nor_vertex(grid: tuple[int, int], loss: str) -> None:
    case = problem(**CASE, loss=loss)
    run = Simulation.of(
        partition(case.data, grid=grid, labels="first"), settings(case, stop={"gap": 1e-3, "rounds": 100})
    )
    assert run.run().outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-3
    labelled = {name for name, shard in run.shards.items() if shard.y is not None}
    assert 0 < len(labelled) < len(run.names)
    for round_id in range(1, len(run.reports) + 1):
        assert len(combinations_of(run, round_id)) == 1
    scope = {name: half._scope for name, half in halves_of(run).items()}
    for _, phase, client, _, body in run.messages:
        if phase == "local_dual":
            result = wire.dual_result_from_bytes(body, scope[client])
            assert result is not None
            assert (result.point is not None) == (client in labelled)
            assert (result.vertex is not None) == (client in labelled)


def test_a_run_with_parties_without_labels_needs_not_many_more_rounds() -> None:
    case = problem(**{**CASE, "lambda_": 1e-3})
    rounds = {}
    for labels in ("all", "first"):
        run = Simulation.of(
            partition(case.data, grid=(2, 2), labels=labels), settings(case, stop={"gap": 1e-3, "rounds": 100})
        )
        ascent = Ascent(run, case)
        while run.reports == [] or run.reports[-1].outcome is None:
            run.round()
            ascent.check()
        assert run.reports[-1].outcome is Outcome.CONVERGED
        rounds[labels] = len(run.reports)
    assert rounds["first"] <= 2 * rounds["all"]


def test_a_party_without_labels_that_restarts_and_one_that_was_absent_go_on_with_what_they_are_told() -> None:
    case = problem(**CASE)
    run = Simulation.of(partition(case.data, grid=(2, 2), labels="first"), settings(case, stop={"gap": 1e-4}))
    ascent = Ascent(run, case)
    unlabelled = [name for name, shard in run.shards.items() if shard.y is None]
    for _ in range(3):
        run.round()
        ascent.check()
    run.restart(unlabelled[0])
    run.round(restarted=frozenset({unlabelled[0]}))
    ascent.check()
    for _ in range(2):
        run.round(available=run.names - {unlabelled[1]})
        ascent.check()
    while run.reports[-1].outcome is None:
        run.round()
        ascent.check()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-4
