"""Corrective runs with slots of 32 and 48 bits: the same guarantees, the same model at every level, half the bytes."""

from dataclasses import replace
from typing import Any

import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.corrective.settings import TOLERATED
from fenchel_common.errors import IncompatibleVectors
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_server.contract import Outcome
from support.corrective import CASE, FIRST, Ascent, at_level, error_of, halves_of, newest_memory
from support.corrective import simulation as simulated
from support.problems import Problem, problem
from support.simulation import Simulation


def scaled(case: Problem, factor: float) -> Problem:
    """The same problem with longer rows."""
    data = replace(case.data, X=factor * case.data.X)
    optimum = solve_centralized(data.X, data.y, loss=case.loss, lambda_=case.lambda_).primal
    return replace(case, data=data, optimum=optimum)


def sent_formats(run: Simulation) -> list[set[int]]:
    """For each round the widths of the inner products that the parties sent in clear."""
    widths: list[set[int]] = [set() for _ in run.reports]
    for round_id, phase, _client, _task, result in run.messages:
        if phase == "inner_product":
            sent = pb.CorrectiveProductResult.FromString(result)
            widths[round_id - 1] |= {
                vector.vector.plain.format.slot_bits
                for vector in (sent.point, sent.vertex)
                if vector.HasField("vector")
            }
    return widths


@pytest.mark.parametrize(("loss", "precision"), [("hinge", 32), ("logistic", 32), ("smoothed_hinge", 48)])
def test_a_run_in_narrow_slots_ends_at_the_optimum_with_true_certificates(loss: str, precision: int) -> None:
    case = problem(**CASE, loss=loss)
    run = simulated(case, precision=precision, stop={"gap": 1e-5, "rounds": 60})
    ascent = Ascent(run, case)
    while run.reports == [] or run.reports[-1].outcome is None:
        run.round()
        ascent.check()
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert ascent.certificates == len(run.reports)
    assert error_of(run, case) <= 1e-5
    assert sent_formats(run)[1:] == [{precision}] * (len(run.reports) - 1)


@pytest.mark.parametrize("precision", [32, 48])
def test_every_level_gives_the_same_model_to_the_last_bit(precision: int) -> None:
    case = problem(**CASE)
    models = []
    for level in ("sealed", "paper", "plain"):
        run = at_level(case, (2, 2), level, precision=precision)
        run.run(rounds=2)
        models.append((run.model().tobytes(), run.alpha(case.ids).tobytes()))
    assert len(set(models)) == 1
    for level in ("sealed", "paper"):
        run = at_level(case, (2, 2), level, masked=True, precision=precision)
        run.run(rounds=2)
        assert run.model().tobytes() == models[0][0]


def test_a_party_that_lost_its_memory_goes_on_in_narrow_slots() -> None:
    """After a collapse no bound on the models is known, so their inner products take 64 bits once."""
    case = problem(**CASE)
    run = simulated(case, precision=32, stop={"gap": 1e-4, "rounds": 60})
    ascent = Ascent(run, case)
    for round_id in range(1, 7):
        if round_id == 4:
            run.restart(FIRST)
        run.round()
        ascent.check()
    widths = sent_formats(run)
    assert {64} in widths[3:]
    assert widths[-1] == {32}
    assert run.run().outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-4


def test_auto_falls_back_to_64_bits_where_rows_are_too_long_for_the_gap() -> None:
    """The terms allow 32 bits for rows of length 1; the parties measure theirs, and keep the error below a tenth."""
    case = scaled(problem(**CASE), 30.0)
    run = simulated(case, precision="auto", stop={"gap": 1e-4, "rounds": 80})
    assert run.alignment.federation.slots == 60
    ascent = Ascent(run, case)
    while run.reports == [] or run.reports[-1].outcome is None:
        run.round()
        ascent.check()
        assert (run.reports[-1].metrics.gap_error or 0.0) <= TOLERATED * 1e-4 * 1.01
    assert run.reports[-1].outcome is Outcome.CONVERGED
    assert error_of(run, case) <= 1e-4
    assert sent_formats(run)[1] == {32, 64}


def test_the_certificate_has_the_error_of_narrow_slots() -> None:
    case = problem(**CASE)
    errors: dict[int, Any] = {}
    for precision in (32, 64):
        run = simulated(case, precision=precision)
        run.run(rounds=5)
        half = next(iter(halves_of(run).values()))
        best = newest_memory(half).best
        errors[precision] = (best.error, run.reports[-1].metrics.gap_error)
    assert errors[64][0] == 0.0 < errors[32][0] < 1e-6
    assert errors[32][1] > errors[64][1]


def test_narrow_slots_take_about_half_of_the_bytes() -> None:
    case = problem(**{**CASE, "rows": 480})
    sizes = {}
    for precision in (32, 64):
        run = simulated(case, precision=precision)
        run.run(rounds=2)
        sizes[precision] = sum(
            len(task) + len(result) for round_id, _, _, task, result in run.messages if round_id == 2
        )
    assert sizes[32] <= 0.6 * sizes[64]


def test_inner_products_in_another_format_than_the_parties_chose_are_refused() -> None:
    """No sum of both formats exists, so the round ends before anybody opens one."""
    run = simulated(problem(**CASE), precision=32)
    run.run(rounds=2)
    deceived = halves_of(run)[FIRST]
    deceived._formats = replace(deceived._formats, tolerance=-1.0)
    with pytest.raises(IncompatibleVectors, match="differ in shape"):
        run.round()
