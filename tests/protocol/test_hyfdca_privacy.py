"""HyFDCA at its three privacy levels: the same bits in the model, and what the server gets to see."""

from typing import Any

import numpy as np
import pytest

from fenchel.v1 import hyfdca_pb2, vectors_pb2
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId
from fenchel_deploy.inprocess.layouts import IN_CLEAR
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from support.keys import MASKS, cipher, run_key
from support.messages import vectors_in
from support.problems import problem
from support.simulation import Simulation

GRIDS = [(2, 2), (4, 1), (1, 4)]
LEVELS = ("sealed", "paper", "plain")
CASE = problem(rows=40, columns=8, lambda_=0.05)
Result = hyfdca_pb2.HyfdcaPrimalResult | hyfdca_pb2.HyfdcaProductResult | hyfdca_pb2.HyfdcaDualResult
RESULTS: dict[str, type[Result]] = {
    "sync": hyfdca_pb2.HyfdcaPrimalResult,
    "primal": hyfdca_pb2.HyfdcaPrimalResult,
    "inner_product": hyfdca_pb2.HyfdcaProductResult,
    "inner_product_after": hyfdca_pb2.HyfdcaProductResult,
    "local_dual": hyfdca_pb2.HyfdcaDualResult,
}


def simulation(level: str, grid: tuple[int, int], *, masked: bool = False, **values: object) -> Simulation:
    chosen = {"lambda": CASE.lambda_, "local": "paper", "privacy": level, "stop": {"gap": None}, **values}
    shards = partition(CASE.data, grid=grid, labels="first" if grid == (2, 2) else "all")
    if level == "plain" or masked:
        return Simulation.of(shards, HyfdcaSettings.parse(chosen), key=MASKS if masked else IN_CLEAR)
    return Simulation.of(shards, HyfdcaSettings.parse(chosen), cipher=cipher(), key=run_key())


@pytest.mark.parametrize("local", ["paper", "theory"])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_run_gives_the_same_bits_at_every_level(grid: tuple[int, int], local: str) -> None:
    values: dict[str, Any] = {"local": local, "certificate_every": 2}
    runs = [simulation(level, grid, **values) for level in LEVELS]
    masked = [simulation(level, grid, masked=True, **values) for level in ("sealed", "paper")]
    for _ in range(2):
        first, *others = [run.round().metrics for run in (*runs, *masked)]
        assert all(metrics == first for metrics in others)
    assert first.gap is not None
    models = [run.model() for run in runs]
    assert models[0].any()
    for run in masked:
        np.testing.assert_array_equal(models[0], run.model())
    for run, model in zip(runs[1:], models[1:], strict=True):
        np.testing.assert_array_equal(models[0], model)
        np.testing.assert_array_equal(runs[0].alpha(CASE.ids), run.alpha(CASE.ids))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("grid", "expected"), [((2, 2), 3), ((1, 4), 3), ((4, 1), 2)])
def test_round_trips_do_not_depend_on_the_level(grid: tuple[int, int], expected: int, level: str) -> None:
    """Section 3.1: three RTC, two without shared samples; with certificates and without."""
    run = simulation(level, grid, certificate_every=2)
    run.run(2)
    assert [run.round_trips(round_id) for round_id in (1, 2)] == [expected, expected]


@pytest.mark.parametrize(
    ("level", "in_clear"),
    [
        ("sealed", set()),
        ("paper", {"contribution", "figures"}),
        ("plain", {"contribution", "figures", "products", "changes"}),
    ],
)
def test_what_each_level_shows_the_server(level: str, in_clear: set[str]) -> None:
    run = simulation(level, (2, 2), certificate_every=1)
    run.run(2)
    run.round(restarted=frozenset({ClientId("party-00")}))
    shown: set[str] = set()
    hidden: set[str] = set()
    for _, phase, _, _, result in run.messages:
        for name, vector in vectors_in(RESULTS[phase].FromString(result)):
            (shown if vector.WhichOneof("kind") == "plain" else hidden).add(name)
    assert shown == in_clear
    assert hidden == {"contribution", "figures", "products", "changes"} - in_clear


def test_a_sealed_transcript_has_no_number_in_clear_but_the_sums_over_all() -> None:
    """All that clients send: whatever is neither ciphertext nor a block's number is the four opened totals."""
    run = simulation("sealed", (2, 2), certificate_every=1, participation="all")
    run.run(2)
    opened: dict[int, set[tuple[float, ...]]] = {}
    for at, phase, _, _, result in run.messages:
        message = RESULTS[phase].FromString(result)
        if isinstance(message, hyfdca_pb2.HyfdcaPrimalResult) and message.figures:
            opened.setdefault(at, set()).add(tuple(message.figures))
            message.ClearField("figures")
        for field, value in message.ListFields():
            assert isinstance(value, vectors_pb2.Vector | hyfdca_pb2.BlockVector), field.name
        for name, vector in vectors_in(message):
            assert vector.WhichOneof("kind") == "encrypted", name
    assert {at: len(figures) for at, figures in opened.items()} == {1: 1, 2: 1}
    metrics = run.reports[-1].metrics
    ((mean_loss, mean_conjugate, accuracy, regulariser),) = opened[2]
    assert metrics.primal == regulariser + mean_loss
    assert metrics.dual == -regulariser - mean_conjugate
    assert metrics.accuracy == accuracy


@pytest.mark.parametrize("level", LEVELS)
def test_the_server_holds_the_kind_of_vectors_of_its_level_and_no_model(level: str) -> None:
    run = simulation(level, (2, 2))
    run.run(2)
    assert isinstance(run.server, HyfdcaServer)
    state = run.server._state
    by_sample = PlainVector if level == "plain" else EncryptedVector
    by_feature = EncryptedVector if level == "sealed" else PlainVector
    assert {type(vector) for vector in state.alpha.values()} == {by_sample}
    assert {type(vector) for vector in state.model.values()} == {by_feature}
    assert {type(vector) for parts in state.contributions.values() for vector in parts.values()} == {by_feature}


@pytest.mark.parametrize(("level", "masked"), [("sealed", False), ("paper", False), ("sealed", True), ("paper", True)])
def test_a_server_killed_between_rounds_goes_on_with_the_same_bits(level: str, masked: bool) -> None:
    calm, shaken = (simulation(level, (2, 2), certificate_every=2, masked=masked) for _ in range(2))
    calm.run(3)
    for round_id in range(1, 4):
        shaken.restore(shaken.server.snapshot())
        if round_id == 3:
            for client in sorted(shaken.names):
                shaken.restart(client)
        shaken.round()
        assert shaken.reports[-1].metrics == calm.reports[round_id - 1].metrics
    np.testing.assert_array_equal(calm.model(), shaken.model())
    if not masked:
        np.testing.assert_array_equal(calm.alpha(CASE.ids), shaken.alpha(CASE.ids))


def test_all_holders_of_a_feature_get_the_same_weight() -> None:
    run = simulation("sealed", (4, 1))
    run.run(2)
    parts = [one.final_model(run.server.last_state(client)) for client, one in run.participants.items()]
    for part in parts[1:]:
        np.testing.assert_array_equal(part, parts[0])
