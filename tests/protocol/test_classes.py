"""Corrective runs of several classes: one problem for each class, in one run.

Every class must reach its own centralized optimum, and nothing that happens to servers, parties or keys may change a
bit. Vectors of one problem must not pass for those of another.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.algorithms.corrective.classes import ClassesClient
from fenchel_common.classlabels import class_code
from fenchel_common.errors import InvalidInput, Refusal, StateDamaged, TagMismatch
from fenchel_common.metrics import CLASS_ACCURACY
from fenchel_common.wire.corrective_classes import (
    ClassRoundChoices,
    class_results_from_bytes,
    class_round_choices_from_bytes,
    class_round_choices_to_bytes,
    class_tasks_from_bytes,
)
from fenchel_common.wire.corrective_snapshot import Reached
from fenchel_common.wire.records import record_from_bytes, record_to_bytes, round_task_from_bytes, round_task_to_bytes
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.contract import Outcome
from support.classes import NAMES, class_run, class_settings, coloured, objective, of_class, optimum
from support.corrective import FIRST, LAST, LEVELS, RESULTS, SECOND, at_level
from support.problems import Problem
from support.simulation import Simulation

Array = NDArray[np.float64]

DATA = coloured()
IDS = [f"coloured-{row:02d}" for row in range(60)]
GAP = 1e-4


def under_way(run: Simulation) -> list[bool]:
    assert isinstance(run.server, CorrectiveServer)
    return [state.reached is None for state in run.server._states]


def joint_accuracy(model: Array) -> float:
    """How often the class with the largest score is right."""
    codes = np.array([class_code(name) for name in NAMES])
    return float((codes[(DATA.X @ model).argmax(axis=1)] == DATA.y).mean())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize(("grid", "labels"), [((2, 2), "all"), ((1, 4), "all"), ((4, 1), "all"), ((1, 2), "first")])
def test_every_class_reaches_its_centralized_optimum(grid: tuple[int, int], labels: str, loss: str) -> None:
    run = class_run(DATA, grid, loss=loss, labels=labels, stop={"gap": GAP, "rounds": 60})
    report = run.run()
    assert report.outcome is Outcome.CONVERGED
    model, figures, found = run.weights(DATA.features), report.metrics.figures, []
    assert model.shape == (8, 3)
    for name, w in zip(NAMES, model.T, strict=True):
        best = optimum(DATA, name, loss=loss)
        found.append(objective(DATA, name, w, loss=loss))
        assert best - 1e-9 <= found[-1] <= best + figures[f"gap of {name}"]
        assert figures[f"gap of {name}"] <= GAP
        assert abs(figures[f"primal of {name}"] - found[-1]) < 1e-7
        right = ((DATA.X @ w >= 0.0) == (of_class(DATA, name).y > 0.0)).mean()
        assert figures[f"accuracy of {name}"] == pytest.approx(right, abs=0.02)
    assert report.metrics.gap == max(figures[f"gap of {name}"] for name in NAMES)
    assert report.metrics.primal == pytest.approx(np.mean(found), abs=1e-7)
    assert report.metrics.accuracy == joint_accuracy(model)
    assert report.metrics.fit == f"accuracy {joint_accuracy(model):.4f}"
    first = run.reports[0].metrics
    assert first.accuracy is None, "it is told once a run, or the problem of a class, ends"
    assert first.fit == f"mean accuracy of classes {first.figures[CLASS_ACCURACY]:.4f}"


def test_each_problem_is_that_of_a_run_of_its_own() -> None:
    """To the last bit: packing the problems side by side changes no number."""
    together = class_run(DATA)
    together.run(4)
    for name, w in zip(NAMES, together.weights(DATA.features).T, strict=True):
        own = of_class(DATA, name)
        alone = at_level(Problem(own, class_settings().loss_function, 0.05, 0.0, own.y, {}), (2, 2), "plain")
        alone.run(4)
        np.testing.assert_array_equal(alone.weights(DATA.features), w)


def test_a_problem_that_has_reached_the_gap_stands_still_and_sends_nothing() -> None:
    run = class_run(DATA, stop={"gap": GAP, "rounds": 60})
    models: dict[int, Any] = {}
    while run.round().outcome is None:
        going = under_way(run)
        model = run.weights(DATA.features)
        for problem in models:
            np.testing.assert_array_equal(models[problem], model[:, problem])
        models |= {problem: model[:, problem] for problem, goes_on in enumerate(going) if not goes_on}
    assert models, "no problem was done before the others"
    assert run.weights(DATA.features).all(), "with the last state come the last records"
    last = len(run.reports)
    for at, _, _, task, result in run.messages:
        if at == last:
            count = len(NAMES) - len(models)
            assert len(class_tasks_from_bytes(task, count)) == len(class_results_from_bytes(result, count)) == count
    assert all(run.participants[name].certified_gap() is not None for name in run.names)
    assert max(run.participants[name].certified_gap() or 1.0 for name in run.names) <= GAP


def test_a_run_gives_the_same_bits_at_every_level_and_with_every_cipher() -> None:
    runs = [class_run(DATA, level=level) for level in LEVELS]
    runs += [class_run(DATA, level=level, masked=True) for level in ("sealed", "paper")]
    for run in runs:
        run.round()
        run.round(available=run.names - {LAST})
        run.restart(SECOND)
        run.round(restarted=frozenset({SECOND}))
        run.round()
    for run in runs[1:]:
        assert run.reports == runs[0].reports
        np.testing.assert_array_equal(run.model(), runs[0].model())
    assert runs[0].model().all()


def test_a_server_restored_after_every_round_goes_on_with_the_same_bits() -> None:
    stop = {"gap": GAP, "rounds": 60}
    calm, shaken = class_run(DATA, stop=stop), class_run(DATA, stop=stop)
    while True:
        shaken.restore(shaken.server.snapshot())
        outcomes = {run.round().outcome for run in (calm, shaken)}
        assert calm.reports[-1] == shaken.reports[-1]
        np.testing.assert_array_equal(calm.model(), shaken.model())
        if outcomes != {None}:
            break
    assert not all(under_way(shaken)), "a problem stood still when the server was restored"


def test_a_run_that_lost_everything_but_its_snapshot_goes_on_to_the_optimum() -> None:
    run = class_run(DATA, stop={"gap": GAP, "rounds": 60})
    while all(under_way(run)):
        run.round()
    run.restore(run.server.snapshot())
    for client in run.names:
        run.restart(client)
    run.round(restarted=run.names)
    assert run.run().outcome is Outcome.CONVERGED
    for name, w in zip(NAMES, run.weights(DATA.features).T, strict=True):
        assert objective(DATA, name, w, loss="hinge") <= optimum(DATA, name, loss="hinge") + GAP


def test_a_closing_round_certifies_every_class() -> None:
    run = class_run(DATA, stop={"gap": None, "rounds": 2})
    assert run.run().outcome is Outcome.FINISHED
    assert len(run.reports) == 3
    assert run.reports[-1].metrics.gap is not None
    assert run.reports[-1].metrics.accuracy == joint_accuracy(run.weights(DATA.features))


@pytest.mark.parametrize("told", [True, False])
def test_how_often_the_largest_score_is_right_is_not_told_if_a_party_has_lost_the_scores_of_a_class(told: bool) -> None:
    run = class_run(DATA, (1, 4), labels="all", stop={"gap": GAP, "rounds": 60})
    while all(under_way(run)):
        run.round()
    if not told:
        run.restart(FIRST)
        run.round(restarted=frozenset({FIRST}))
    assert run.run().outcome is Outcome.CONVERGED
    accuracy = run.reports[-1].metrics.accuracy
    assert accuracy == (joint_accuracy(run.weights(DATA.features)) if told else None)


def test_a_party_that_counts_more_right_predictions_than_samples_is_found_out() -> None:
    run = class_run(DATA, stop={"gap": None, "rounds": 1})
    half = run.participants[FIRST].algorithm
    assert isinstance(half, ClassesClient)
    half._right = lambda *_: (0, 99)  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="of all classes are impossible"):
        run.run()


def test_the_snapshot_of_another_number_of_classes_is_refused() -> None:
    run = class_run(DATA)
    run.round()
    snapshot, settings = run.server.snapshot(), class_settings(classes=[*NAMES, "blue"])
    with pytest.raises(StateDamaged, match="other classes"):
        CorrectiveServer.restore(snapshot, settings=settings, layout=run.alignment.federation, key=run.key)


@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("inner_product", "point"),
        ("inner_product", "gram"),
        ("local_dual", "point"),
        ("local_dual", "figures"),
        ("primal", "point"),
        ("primal", "conjugates_and_products"),
    ],
)
def test_the_vectors_of_one_problem_do_not_pass_for_those_of_another(phase: str, field: str) -> None:
    """The same vector of another class is in its place: the sum does not open."""
    run = class_run(DATA)

    def exchanged(body: bytes) -> bytes:
        parts = class_results_from_bytes(body, 3)
        altered, other = (RESULTS[phase].FromString(part) for part in parts[:2])
        getattr(altered, field).CopyFrom(getattr(other, field))
        return pb.CorrectiveClassResults(results=[altered.SerializeToString(), *parts[1:]]).SerializeToString()

    run.run(1)
    run.tampering[(2, phase, FIRST)] = exchanged
    with pytest.raises(TagMismatch):
        run.run(3)


@pytest.mark.parametrize("count", [2, 4])
def test_an_answer_without_a_part_for_every_problem_is_rejected(count: int) -> None:
    run = class_run(DATA)

    def cut(body: bytes) -> bytes:
        parts = [*class_results_from_bytes(body, 3), b""]
        return pb.CorrectiveClassResults(results=parts[:count]).SerializeToString()

    run.tampering[(1, "primal", FIRST)] = cut
    report = run.round()
    assert "must be one for each of the 3 problems" in report.metrics.absences[FIRST]


def with_problems(*classes: int) -> Any:
    """Tasks whose newest record says that the problems of other classes are under way."""

    def forge(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        clients = sorted(run_names)
        record = record_from_bytes(records[-1], clients)
        chosen = class_round_choices_from_bytes(record.choices, 3)
        choices = class_round_choices_to_bytes(ClassRoundChoices(classes, chosen.round))
        forged = record_to_bytes(type(record)(record.moment, record.given, choices), clients)
        return round_task_to_bytes(body, first=first, records=[*records[:-1], forged])

    run_names = class_run(DATA).names
    return forge


def test_a_problem_that_stood_still_does_not_go_on() -> None:
    run = class_run(DATA, stop={"gap": GAP, "rounds": 60})
    while all(under_way(run)):
        run.round()
    run.round()
    assert run.reports[-1].outcome is None
    run.forging[(len(run.reports) + 1, "inner_product", FIRST)] = with_problems(0, 1, 2)
    with pytest.raises(Refusal, match="stood still is under way again"):
        run.round()


def test_a_model_one_of_whose_classes_was_left_out_early_is_not_certified() -> None:
    """The server says that a class has reached the gap which has not: no party takes the models for certified."""
    run = class_run(DATA, stop={"gap": GAP, "rounds": 60})
    run.round()
    assert isinstance(run.server, CorrectiveServer)
    run.server._states[0] = replace(run.server._states[0], reached=Reached(0.0, 0.0, 0.0, 0.0, 1.0))
    assert run.run().outcome is Outcome.CONVERGED
    assert run.weights(DATA.features).shape == (8, 3)
    for participant in run.participants.values():
        gap = participant.certified_gap()
        assert gap is not None
        assert gap > GAP
        assert not participant.reached(GAP)
