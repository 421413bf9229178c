"""A party's half of HyFDCA: what it refuses, whatever the server sends, and what it gives."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from google.protobuf.message import Message
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel.v1 import hyfdca_pb2
from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.hyfdca.book import FIGURES
from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_client.crypto.plain import PlainCipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Pads
from fenchel_common.algorithms.dual import ALPHA_FORMAT
from fenchel_common.algorithms.hyfdca.messages import SAMPLES_UNIT
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.vectors import Vector
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.losses import LOSSES
from fenchel_common.records import Moment
from fenchel_common.wire.arrays import NUMBER_BYTES
from fenchel_deploy.inprocess.layouts import IN_CLEAR, KEY_BITS, table_of
from support.halves import forged
from support.hyfdca import CASE, FIRST, LAST
from support.layouts import client_layout
from support.problems import problem
from support.simulation import Simulation
from support.tagged import encrypted

Array = NDArray[np.float64]
SETTINGS = HyfdcaSettings.parse({"lambda": 0.1, "local": "paper", "privacy": "paper", "h": 12})
LABELLED, BARE = ClientId("party-00"), ClientId("party-01")


def clients(**values: object) -> Simulation:
    settings = SETTINGS.model_copy(update=values)
    return Simulation.of(partition(problem(rows=40).data, grid=(1, 2), labels="first"), settings)


def half(run: Simulation, client: ClientId) -> HyfdcaClient:
    found = run.clients[client]
    assert isinstance(found, HyfdcaClient)
    return found


def test_a_phase_that_is_not_of_hyfdca_is_refused() -> None:
    run = clients()
    run.round()
    with pytest.raises(InvalidInput, match="phase: HyFDCA has no phase 'average'"):
        run.clients[LABELLED].answer("average", b"", run.participants[LABELLED].transcript.book)


def test_a_phase_before_the_first_round_or_a_second_time_is_refused() -> None:
    run = clients()
    with pytest.raises(InvalidInput, match="phase: sync cannot follow here"):
        run.clients[LABELLED].answer("sync", b"", run.participants[LABELLED].transcript.book)
    run.round()
    book = run.participants[LABELLED].transcript.book
    with pytest.raises(InvalidInput, match="phase: sync cannot follow here"):
        run.clients[LABELLED].answer("sync", b"", book)


def test_a_party_that_is_not_on_record_as_present_refuses_to_work() -> None:
    run = clients()
    first = run.server.begin_round(RoundId(1), frozenset({LABELLED}), frozenset(), attempt=run.attempt)
    with pytest.raises(InvalidInput, match="this party does not take part"):
        run.participants[BARE].answer(Moment(run.attempt, RoundId(1), first.phase), first.tasks[LABELLED])


def without(field: str) -> Callable[[Message], None]:
    return lambda message: message.ClearField(field)


def without_its_last_block(field: str) -> Callable[[Any], None]:
    def shorten(message: Any) -> None:
        vector = getattr(message, field)
        count = len(vector.blocks) // NUMBER_BYTES
        plain = vector.vector.plain
        plain.values = plain.values[: len(plain.values) // count * (count - 1)]
        plain.tags = plain.tags[: len(plain.tags) // count * (count - 1)]
        vector.blocks = vector.blocks[:-NUMBER_BYTES]

    return shorten


@pytest.mark.parametrize(
    ("at", "phase", "kind", "change", "message"),
    [
        (1, "local_dual", hyfdca_pb2.HyfdcaDualTask, without("norms"), "norms: missing"),
        (2, "local_dual", hyfdca_pb2.HyfdcaDualTask, without("products"), r"products\.blocks: "),
        (2, "local_dual", hyfdca_pb2.HyfdcaDualTask, without_its_last_block("products"), r"products\.blocks: "),
        (2, "inner_product", hyfdca_pb2.HyfdcaProductTask, without("model"), "model: missing, and the one that this"),
        (1, "primal", hyfdca_pb2.HyfdcaPrimalTask, without("alpha"), "alpha: this party lacks dual variables"),
        (2, "primal", hyfdca_pb2.HyfdcaPrimalTask, without("alpha"), "alpha: this party lacks dual variables"),
        (2, "primal", hyfdca_pb2.HyfdcaPrimalTask, without_its_last_block("alpha"), "alpha: this party lacks"),
        (2, "primal", hyfdca_pb2.HyfdcaPrimalTask, without("totals"), "totals: must be there if and only if"),
    ],
)
def test_a_task_that_lacks_what_the_records_make_due_is_refused(
    at: int, phase: str, kind: type[Message], change: Callable[[Message], None], message: str
) -> None:
    run = clients(h=40, certificate_every=2)
    run.forging[(at, phase, LABELLED)] = forged(kind, change)
    with pytest.raises(InvalidInput, match=message):
        run.run(2)


def test_a_model_of_fewer_blocks_than_are_on_record_is_refused() -> None:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(64) < 0.5, 1.0, -1.0)
    features = tuple(f"x{column:02d}" for column in range(64))
    shard = Shard(tuple(str(row) for row in range(64)), features, np.eye(64), y)
    run = Simulation.of([shard], SETTINGS)
    run.round()
    run.forging[(2, "local_dual", LABELLED)] = forged(hyfdca_pb2.HyfdcaDualTask, without_its_last_block("model"))
    with pytest.raises(InvalidInput, match=r"model\.blocks: must be the blocks of features that have a model"):
        run.round()


def test_totals_in_a_round_without_figures_are_refused() -> None:
    run = clients(certificate_every=2)
    run.run(2)
    (kept,) = [task for at, phase, who, task, _ in run.messages if (at, phase, who) == (2, "primal", LABELLED)]
    totals = hyfdca_pb2.HyfdcaPrimalTask.FromString(kept).totals
    run.forging[(3, "primal", LABELLED)] = forged(
        hyfdca_pb2.HyfdcaPrimalTask, lambda message: message.totals.CopyFrom(totals)
    )
    with pytest.raises(InvalidInput, match="totals: must be there if and only if all parties gave figures"):
        run.round()


def test_a_client_that_lost_its_memory_unknown_to_the_server_refuses_until_it_is_told_everything() -> None:
    run = clients()
    run.run(2)
    run.restart(LABELLED)
    with pytest.raises(Refusal, match="the server left out records"):
        run.round()


def test_figures_that_do_not_count_every_sample_once_are_refused() -> None:
    run = clients(certificate_every=1)
    liar = half(run, LABELLED)

    def one_short(_predictions: Array, *, with_losses: bool) -> Vector:
        assert with_losses
        wrong = np.array([0.1, 0.2, 0.3, 0.4, 39 / SAMPLES_UNIT])
        return liar._codec.to_numbers(FIGURES, wrong, contributors=[LABELLED])

    with (
        patch.object(liar, "_figures", one_short),
        pytest.raises(InvalidInput, match="totals: the figures do not cover every sample once"),
    ):
        run.round()


class Opened:
    """In place of a codec: what a party finds when it opens a vector."""

    def __init__(self, values: Array) -> None:
        self._values = values

    def from_blocks(self, _vector: BlockVector, _origins: Origins) -> Array:
        return self._values


def opened_duals(run: Simulation, client: ClientId, block: int, values: Array, *, terms: int = 1) -> Array:
    """What the client makes of dual variables of a block, in a sum of so many contributions."""
    cipher = PlainCipher(KEY_BITS)
    alpha = BlockVector((block,), encrypted(cipher, np.zeros(cipher.slots), ALPHA_FORMAT))
    origins: Sequence[Any] = [None] * terms
    codec: Any = Opened(values)
    return checked_duals(alpha, half(run, client)._rows, codec, lambda _: origins, loss=LOSSES["hinge"])


def labels(run: Simulation, block: int) -> Array:
    y = run.shards[LABELLED].y
    assert y is not None
    return y[run.alignment.clients[LABELLED].rows_of([block])]


@pytest.mark.parametrize("beyond", [-(2.0**-31), 1.0 + 2.0**-31, -0.5, 1.9])
def test_a_label_holder_refuses_dual_variables_outside_their_interval(beyond: float) -> None:
    """y·α ∈ [0, 1] is the domain of the conjugate (equation 2), and honest steps never leave it."""
    run = clients()
    values = 0.5 * labels(run, 1)
    values[-1] *= 2.0 * beyond
    with pytest.raises(InvalidInput, match="1 blocks are outside their interval: a party that holds the same"):
        opened_duals(run, LABELLED, 1, values)


def test_a_party_without_labels_refuses_dual_variables_beyond_one() -> None:
    run = clients()
    values = np.full(30, 0.3)
    values[1] = -1.0
    np.testing.assert_array_equal(opened_duals(run, BARE, 0, values), values)
    values[1] = -1.1
    with pytest.raises(InvalidInput, match="are outside their interval"):
        opened_duals(run, BARE, 0, values)


def test_dual_variables_off_by_no_more_than_rounding_are_put_back_into_their_interval() -> None:
    run = clients()
    y = labels(run, 0)
    np.testing.assert_array_equal(opened_duals(run, LABELLED, 0, y * (1.0 + 2.0**-31), terms=4), y)


def test_a_share_is_all_of_the_clients_model() -> None:
    run = clients()
    run.round()
    alpha = half(run, LABELLED)._alpha
    layout, shard = run.alignment.clients[LABELLED], run.shards[LABELLED]
    (result,) = [result for _, phase, who, _, result in run.messages if (phase, who) == ("primal", LABELLED)]
    plain = hyfdca_pb2.HyfdcaPrimalResult.FromString(result).contribution.vector.plain
    values = np.frombuffer(plain.values, dtype="<i8") * 2.0**-32
    expected = alpha @ shard.X[layout.rows] / (SETTINGS.lambda_ * len(shard.ids))
    assert alpha.any()
    np.testing.assert_allclose(values[: len(expected)], expected, rtol=0, atol=2.0**-33)


def test_the_final_model_disturbs_nothing() -> None:
    run, calm = clients(), clients()
    assert not run.model().any()
    for _ in range(4):
        run.round()
        calm.round()
        assert run.model().any() or len(run.reports) == 1
    np.testing.assert_array_equal(run.model(), calm.model())


def test_a_final_model_of_other_blocks_than_those_on_record_is_refused() -> None:
    run = clients()
    run.run(2)
    state = forged(hyfdca_pb2.HyfdcaState, without("model"))(run.server.last_state(LABELLED))
    with pytest.raises(InvalidInput, match=r"model\.blocks: "):
        run.participants[LABELLED].final_model(state)


def test_a_party_knows_the_gap_of_a_certificate_that_it_opened_and_of_no_other_round() -> None:
    run = Simulation.of(
        partition(problem(**CASE).data, grid=(2, 2)), SETTINGS.model_copy(update={"certificate_every": 2})
    )
    run.round()
    assert run.participants[FIRST].certified_gap() is None
    metrics = run.round().metrics
    assert metrics.primal is not None
    assert metrics.dual is not None
    for client in (FIRST, LAST):
        # The record of the last phase comes with the next task, or with the final model.
        run.participants[client].final_model(run.server.last_state(client))
        assert run.participants[client].certified_gap() == pytest.approx(metrics.primal - metrics.dual, abs=1e-15)
    run.round()
    assert run.participants[FIRST].certified_gap() is None


def test_labels_that_the_loss_cannot_take_are_refused_at_the_start() -> None:
    shard = Shard(("a",), ("x",), np.ones((1, 1)), np.zeros(1))
    layout = client_layout({0: 1}, slots=30, feature_blocks={0: np.array([0])})
    with pytest.raises(InvalidInput, match="y: the hinge loss takes"):
        HyfdcaClient(
            SETTINGS,
            layout=layout,
            table=table_of(shard),
            cipher=PlainCipher(KEY_BITS),
            key=IN_CLEAR,
            seal=Seal(Pads(bytes(32))),
        )


def test_sparse_and_dense_shards_give_the_same_run() -> None:
    case = problem(rows=40)
    dense = partition(case.data, grid=(2, 2))
    sparse = [Shard(shard.ids, shard.features, csr_array(shard.X), shard.y) for shard in dense]
    runs = [Simulation.of(shards, SETTINGS) for shards in (dense, sparse)]
    for run in runs:
        run.run(5)
    np.testing.assert_allclose(runs[0].model(), runs[1].model(), rtol=0.0, atol=1e-8)
