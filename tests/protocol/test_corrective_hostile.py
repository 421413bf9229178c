"""Answers and tasks of corrective HyFDCA that nobody honest would send: refused by field, or a clear end of the run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.algorithms.corrective import local_dual
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.wire.records import round_task_from_bytes, round_task_to_bytes
from fenchel_server.contract import PhaseRequest
from support.corrective import CASE, FIRST, PHASES, RESULTS, Ascent, simulation
from support.halves import Tampering, changed, half_a_round
from support.listed import add_numbers, drop_last
from support.problems import problem

SMALL = {**CASE, "rows": 40}
Array = NDArray[np.float64]
Change = Callable[[Any], None]


def set_to(field: str, value: object) -> Change:
    """Sets a field, named with its path."""

    def change(message: Any) -> None:
        *path, last = field.split(".")
        for name in path:
            message = getattr(message, name)
        setattr(message, last, value)

    return change


def without(field: str) -> Change:
    return lambda message: message.ClearField(field)


def longer(field: str) -> Change:
    """Eight bytes more: one value more."""

    def change(message: Any) -> None:
        getattr(message, field).plain.values += bytes(8)

    return change


def beyond(field: str) -> Change:
    """A value that no honest client can give."""

    def change(message: Any) -> None:
        vector = getattr(message, field).vector.plain
        vector.values = np.full(len(vector.values) // 8, 2**62, dtype="<i8").tobytes()

    return change


@pytest.mark.parametrize(
    ("phase", "change", "field"),
    [
        ("inner_product", without("gram"), "gram"),
        ("inner_product", set_to("gram.plain.terms", 2), "gram"),
        ("inner_product", set_to("gram.plain.format.bound", 2.0**20), "gram"),
        ("inner_product", without("point"), "point"),
        ("inner_product", without("vertex"), "vertex"),
        ("inner_product", set_to("point.vector.plain.terms", 2), "point"),
        ("inner_product", set_to("vertex.vector.plain.format.bound", 2.0**20), "vertex"),
        ("inner_product", lambda m: add_numbers(m.point, "blocks", 77), "point.blocks"),
        ("inner_product", set_to("lost", True), "it has lost its memory"),
        ("inner_product", beyond("point"), ""),
        ("local_dual", without("figures"), "figures"),
        ("local_dual", longer("figures"), "figures"),
        ("local_dual", set_to("combination", b"short"), "combination"),
        ("local_dual", without("point"), "point"),
        ("local_dual", without("alpha"), "alpha"),
        ("local_dual", without("weights"), "weights"),
        ("local_dual", set_to("alpha.vector.plain.terms", 3), "alpha"),
        ("local_dual", lambda m: add_numbers(m.weights, "blocks", 0), "weights.blocks"),
        ("local_dual", beyond("alpha"), ""),
        ("primal", without("point"), "point"),
        ("primal", without("vertex"), "vertex"),
        ("primal", without("conjugates_and_products"), "conjugates_and_products"),
        ("primal", set_to("conjugates_and_products.plain.terms", 4), "conjugates_and_products"),
        ("primal", without("objectives"), "objectives"),
        ("primal", set_to("objectives.primal", float("nan")), "objectives.primal"),
        ("primal", set_to("objectives.row_norm", float("inf")), "objectives.row_norm"),
        ("primal", beyond("vertex"), ""),
        ("primal", without("model"), "model"),
        ("primal", set_to("model.vector.plain.terms", 2), "model"),
        ("primal", lambda m: add_numbers(m.model, "blocks", 0), "model.blocks"),
    ],
)
def test_an_answer_that_does_not_fit_is_rejected_by_field_and_the_run_goes_on(
    phase: str, change: Change, field: str
) -> None:
    case = problem(**SMALL)
    run = simulation(case)
    run.tampering[(2, phase, FIRST)] = changed(RESULTS[phase], change)
    ascent = Ascent(run, case)
    for _ in range(2):
        run.round()
        ascent.check()
    assert run.reports[-1].metrics.absences[FIRST].startswith(f"{phase}: rejected: {field}")
    run.round()
    assert ascent.check().metrics.absences == {}
    assert run.reports[-1].metrics.gap is not None


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_result_that_is_no_answer_is_rejected_and_the_run_goes_on(phase: str, body: bytes) -> None:
    run = simulation(problem(**SMALL))
    run.tampering[(2, phase, FIRST)] = lambda _: body
    run.round()
    assert run.round().metrics.absences[FIRST].startswith(f"{phase}: ")
    assert run.round().metrics.absences == {}


def more_numbers(field: str) -> Change:
    """As if the client remembered other points than the rest."""

    def change(message: Any) -> None:
        getattr(message, field).plain.values += bytes(16)

    return change


@pytest.mark.parametrize(
    ("phase", "change", "reason"),
    [
        ("inner_product", more_numbers("gram"), "gram: clients disagree"),
        ("local_dual", set_to("combination", bytes(32)), "combination: clients found different weights"),
        ("primal", set_to("objectives.dual", 0.5), "objectives: clients opened"),
        ("primal", set_to("objectives.accuracy", 0.25), "objectives: clients opened"),
        ("primal", set_to("accepted", False), "objectives: clients opened"),
        ("primal", more_numbers("conjugates_and_products"), "conjugates_and_products: clients disagree"),
    ],
)
def test_clients_that_disagree_on_what_all_must_find_end_the_run_with_a_clear_error(
    phase: str, change: Change, reason: str
) -> None:
    run = simulation(problem(**SMALL))
    run.tampering[(2, phase, FIRST)] = changed(RESULTS[phase], change)
    run.run(1)
    with pytest.raises(InvalidInput, match=reason):
        run.round()


TASKS: dict[str, Any] = {
    "inner_product": pb.CorrectiveProductTask,
    "local_dual": pb.CorrectiveDualTask,
    "primal": pb.CorrectivePrimalTask,
}


def forged(phase: str, change: Change) -> Tampering:
    """A task with its records as they are, and its body changed."""

    def forge(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        return round_task_to_bytes(changed(TASKS[phase], change)(body), first=first, records=records)

    return forge


@pytest.mark.parametrize(
    ("phase", "change", "field"),
    [
        ("inner_product", without("round_start"), "round_start.conjugates_and_products"),
        (
            "inner_product",
            lambda m: m.round_start.ClearField("conjugates_and_products"),
            "round_start.conjugates_and_products",
        ),
        (
            "inner_product",
            lambda m: longer("conjugates_and_products")(m.round_start),
            "round_start.conjugates_and_products",
        ),
        ("inner_product", lambda m: m.round_start.ClearField("point"), "round_start.point"),
        ("inner_product", lambda m: m.round_start.ClearField("vertex"), "round_start.vertex"),
        ("local_dual", longer("gram"), "gram"),
        ("local_dual", more_numbers("gram"), "gram"),
        ("local_dual", without("point"), "products.blocks"),
        ("primal", lambda m: drop_last(m.point, "blocks"), "point.vector"),
        ("primal", without("point"), "point"),
        ("primal", without("figures"), "figures"),
        ("primal", longer("figures"), "figures"),
    ],
)
def test_a_client_refuses_a_task_that_does_not_fit_what_it_knows(phase: str, change: Change, field: str) -> None:
    run = simulation(problem(**SMALL))
    run.forging[(2, phase, FIRST)] = forged(phase, change)
    run.run(1)
    with pytest.raises(FenchelError) as caught:
        run.round()
    assert str(caught.value).startswith(field)


def test_a_client_without_a_round_refuses_primal_and_unknown_phases() -> None:
    run = simulation(problem(**SMALL))
    run.run(1)
    book = run.participants[FIRST].transcript.book
    step = half_a_round(run, 2, until="primal")
    assert isinstance(step, PhaseRequest)
    run.restart(FIRST)
    body = round_task_from_bytes(step.tasks[FIRST])[2]
    with pytest.raises(InvalidInput, match="no round under way"):
        run.clients[FIRST].answer("primal", body, book)
    with pytest.raises(FenchelError, match="no phase"):
        run.clients[FIRST].answer("sync", b"", book)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_a_point_that_no_honest_sum_gives_is_refused(grid: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a party that gives impossible numbers under the right tag."""
    run = simulation(problem(**SMALL), grid, stop={"gap": None})
    run.run(1)

    def impossible(rows: PartyRows, *_: Any, **__: Any) -> Array:
        return np.full(rows.count, 1.9)

    monkeypatch.setattr(local_dual, "_local_point", impossible)
    with pytest.raises(InvalidInput, match="blocks are outside their interval"):
        run.round()


def test_a_party_that_lost_its_memory_refuses_impossible_dual_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulation(problem(**SMALL))
    with monkeypatch.context() as lying:
        lying.setattr(local_dual, "rounded_towards_zero", lambda alpha, _formats: np.full(len(alpha), 1.9))
        lying.setattr("fenchel_client.algorithms.corrective.primal.checked_duals", honest_duals)
        run.run(2)
    run.restart(FIRST)
    with pytest.raises(InvalidInput, match="blocks are outside their interval"):
        run.round(restarted=frozenset({FIRST}))


def honest_duals(alpha: BlockVector, rows: PartyRows, *_: object, **__: object) -> Array:
    return np.zeros(len(rows.positions_of(alpha.blocks)))
