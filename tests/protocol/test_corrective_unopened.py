"""Corrective HyFDCA opens the products of a new model when they are first used, and sends none that are zero."""

from collections import Counter

import pytest

from fenchel.v1 import corrective_pb2 as pb
from fenchel_client.algorithms.codec import Array, Origins, RowCodec
from fenchel_client.algorithms.corrective.points import VERTEX
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import TagMismatch
from fenchel_common.ids import ClientId
from support.corrective import CASE, FIRST, LAST, RESULTS, halves_of, newest_memory, simulation
from support.forgeries import altered, nudged
from support.problems import problem
from support.simulation import Simulation

SMALL = {**CASE, "rows": 40}
USED = {**SMALL, "lambda_": 0.1, "seed": 3}
"""The new vertices of rounds 2 and 3 have weights."""
UNUSED = SMALL
"""The new vertices of rounds 2 and 3 have none, neither then nor later."""
USED_LATER = {**SMALL, "lambda_": 0.03, "loss": "smoothed_hinge"}
"""The vertex whose products come in round 2 has no weight until round 4."""


def with_products(run: Simulation, round_id: int) -> dict[ClientId, bool]:
    """Whether each client sent inner products by sample in a round."""
    found = {}
    for at, phase, client, _, result in run.messages:
        if (at, phase) == (round_id, "inner_product"):
            message = pb.CorrectiveProductResult.FromString(result)
            found[client] = message.HasField("point") or message.HasField("vertex")
    return found


@pytest.mark.parametrize(("case", "vectors"), [(USED, 3), (UNUSED, 2)])
def test_a_party_opens_the_products_of_a_vertex_only_if_it_has_a_weight(
    case: dict[str, object], vectors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[RowCodec] = Counter()
    from_blocks = RowCodec.from_blocks

    def counted(codec: RowCodec, vector: BlockVector, origins: Origins) -> Array:
        opened[codec] += 1
        return from_blocks(codec, vector, origins)

    run = simulation(problem(**case))
    run.run(2)
    monkeypatch.setattr(RowCodec, "from_blocks", counted)
    run.round()
    assert set(opened.values()) == {vectors}
    assert len(opened) == 4


def test_forged_products_are_refused_in_the_round_that_uses_them() -> None:
    run = simulation(problem(**USED_LATER))
    run.tampering[(2, "inner_product", FIRST)] = altered(RESULTS["inner_product"], "vertex", nudged, run.key)
    run.run(3)
    with pytest.raises(TagMismatch):
        run.round()
    assert run.phases[-1] == (4, "local_dual")


def test_forged_products_that_nobody_uses_change_nothing() -> None:
    honest, forged = (simulation(problem(**UNUSED)) for _ in range(2))
    forged.tampering[(2, "inner_product", FIRST)] = altered(RESULTS["inner_product"], "vertex", nudged, forged.key)
    honest.run(3)
    forged.run(3)
    assert honest.model().tobytes() == forged.model().tobytes()
    assert all(newest_memory(half).rounds_of(VERTEX) == (1, 2) for half in halves_of(forged).values())


def test_nobody_sends_products_while_nothing_is_on_record() -> None:
    run = simulation(problem(**SMALL))
    run.run(2)
    assert set(with_products(run, 1).values()) == {False}
    assert set(with_products(run, 2).values()) == {True}


def test_a_party_that_missed_the_first_rounds_knows_that_models_are_on_record() -> None:
    run = simulation(problem(**SMALL))
    # A round in which P is not known puts no model on record.
    run.round(available=run.names - {LAST})
    run.round()
    assert set(with_products(run, 2).values()) == {False}
    report = run.round()
    assert len(with_products(run, 3)) == 4
    assert set(with_products(run, 3).values()) == {True}
    assert not report.metrics.absences
