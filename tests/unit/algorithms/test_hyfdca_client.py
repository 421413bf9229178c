"""A party's half of HyFDCA alone: what it refuses, and what it gives."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import (
    DualTask,
    PrimalResult,
    PrimalTask,
    ProductTask,
    SampleRange,
    StateUpdate,
)
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.vectors import PlainCipher
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.scope import Scope
from fenchel_deploy.inprocess.layouts import IN_CLEAR, KEY_BITS, table_of
from support.problems import problem
from support.simulation import Simulation

Array = NDArray[np.float64]
CIPHER = PlainCipher(KEY_BITS)
SETTINGS = HyfdcaSettings.parse({"lambda": 0.1, "local": "paper", "privacy": "paper"})
LABELLED, BARE = ClientId("party-00"), ClientId("party-01")


def clients() -> Simulation:
    return Simulation.of(partition(problem(rows=40).data, grid=(1, 2), labels="first"), SETTINGS)


def dual_task() -> DualTask:
    return DualTask(
        state=StateUpdate(),
        norms=None,
        products=None,
        ranges=(SampleRange(0, 0, 3),),
        divisors=(1,),
        gamma=1.0,
        step_scale=1.0,
        report_blocks=(),
    )


def test_a_phase_that_is_not_of_hyfdca_is_refused() -> None:
    with pytest.raises(InvalidInput, match="phase: HyFDCA has no phase 'average'"):
        clients().clients[LABELLED].answer("average", b"")


def test_a_shared_block_cannot_be_updated_without_its_inner_products() -> None:
    with pytest.raises(InvalidInput, match=r"products\.blocks: "):
        clients().clients[LABELLED].answer("local_dual", wire.dual_task_to_bytes(dual_task()))


def test_norms_must_come_before_the_first_step() -> None:
    zeros = BlockVector((0,), CIPHER.encrypt(np.zeros(CIPHER.slots), PRODUCT_FORMAT))
    task = replace(dual_task(), products=zeros)
    with pytest.raises(InvalidInput, match="norms: missing"):
        clients().clients[LABELLED].answer("local_dual", wire.dual_task_to_bytes(task))


def test_a_party_without_labels_refuses_to_report() -> None:
    zeros = BlockVector((0,), CIPHER.encrypt(np.zeros(CIPHER.slots), PRODUCT_FORMAT))
    task = replace(dual_task(), ranges=(), divisors=(), products=zeros, report_blocks=(0,), with_losses=True)
    with pytest.raises(InvalidInput, match="has no labels"):
        clients().clients[BARE].answer("local_dual", wire.dual_task_to_bytes(task))


def test_inner_products_of_no_block_are_refused() -> None:
    with pytest.raises(InvalidInput, match="blocks: no block"):
        clients().clients[LABELLED].answer("inner_product", wire.product_task_to_bytes(ProductTask(StateUpdate(), ())))


def alpha(block: int, values: Array, *, terms: int = 1) -> StateUpdate:
    padded = np.zeros(CIPHER.slots)
    padded[: len(values)] = values
    return StateUpdate(alpha=BlockVector((block,), replace(CIPHER.encrypt(padded, ALPHA_FORMAT), terms=terms)))


def primal(run: Simulation, client: ClientId, state: StateUpdate) -> PrimalResult:
    scope = Scope.of_client(run.alignment.clients[client], key=IN_CLEAR, privacy=SETTINGS.privacy)
    half = run.clients[client]
    return wire.primal_result_from_bytes(half.answer("sync", wire.primal_task_to_bytes(PrimalTask(state))), scope)


def labels(run: Simulation, block: int) -> Array:
    y = run.shards[LABELLED].y
    assert y is not None
    return y[run.alignment.clients[LABELLED].rows_of([block])]


def test_a_share_is_all_of_the_clients_model_and_a_reset_forgets_the_dual_variables() -> None:
    run = clients()
    y = labels(run, 0)
    contribution = primal(run, LABELLED, alpha(0, y)).contribution
    assert contribution is not None
    layout, shard = run.alignment.clients[LABELLED], run.shards[LABELLED]
    assert contribution.blocks == tuple(layout.feature_blocks)
    expected = y @ shard.X[layout.rows_of([0])] / (SETTINGS.lambda_ * len(shard.ids))
    np.testing.assert_allclose(CIPHER.decrypt(contribution.vector)[: len(expected)], expected, rtol=0, atol=2.0**-33)
    emptied = primal(run, LABELLED, StateUpdate(reset=True)).contribution
    assert emptied is not None
    assert not CIPHER.decrypt(emptied.vector).any()


@pytest.mark.parametrize("beyond", [-(2.0**-31), 1.0 + 2.0**-31, -0.5, 1.9])
def test_a_label_holder_refuses_dual_variables_outside_their_interval(beyond: float) -> None:
    """y·α ∈ [0, 1] is the domain of the conjugate (equation 2), and honest steps never leave it."""
    run = clients()
    values = 0.5 * labels(run, 1)
    values[-1] *= 2.0 * beyond
    with pytest.raises(InvalidInput, match="1 blocks are outside their interval: a party that holds the same"):
        primal(run, LABELLED, alpha(1, values))


def test_a_party_without_labels_refuses_dual_variables_beyond_one() -> None:
    primal(clients(), BARE, alpha(0, np.array([0.3, -1.0])))
    with pytest.raises(InvalidInput, match="are outside their interval"):
        primal(clients(), BARE, alpha(0, np.array([0.3, -1.1])))


def test_dual_variables_off_by_no_more_than_rounding_are_put_back_into_their_interval() -> None:
    run = clients()
    y = labels(run, 0)
    over = primal(run, LABELLED, alpha(0, y * (1.0 + 2.0**-31), terms=4)).contribution
    exact = primal(run, LABELLED, alpha(0, y)).contribution
    assert over is not None
    assert exact is not None
    np.testing.assert_array_equal(CIPHER.decrypt(over.vector), CIPHER.decrypt(exact.vector))


def test_the_final_model_is_what_the_state_says_and_disturbs_nothing() -> None:
    run = clients()
    half = run.clients[LABELLED]
    assert not half.final_model(wire.state_to_bytes(StateUpdate(reset=True))).any()
    before = primal(run, LABELLED, alpha(0, labels(run, 0))).contribution
    layout = run.alignment.clients[LABELLED]
    ((block, positions),) = layout.feature_blocks.items()
    weights = BlockVector((block,), CIPHER.encrypt(np.arange(CIPHER.slots, dtype=np.float64), PRODUCT_FORMAT))
    model = half.final_model(wire.state_to_bytes(StateUpdate(reset=True, model=weights)))
    np.testing.assert_array_equal(model[positions], np.arange(len(positions)))
    after = primal(run, LABELLED, StateUpdate()).contribution
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(CIPHER.decrypt(before.vector), CIPHER.decrypt(after.vector))


def test_labels_that_the_loss_cannot_take_are_refused_at_the_start() -> None:
    shard = Shard(("a",), ("x",), np.ones((1, 1)), np.zeros(1))
    one = np.array([1])
    layout = ClientLayout(1, CIPHER.slots, np.array([0]), one, one, np.array([False]), np.array([0]))
    with pytest.raises(InvalidInput, match="y: the hinge loss takes"):
        HyfdcaClient(SETTINGS, layout=layout, table=table_of(shard), cipher=CIPHER, key=IN_CLEAR)


def test_sparse_and_dense_shards_give_the_same_run() -> None:
    case = problem(rows=40)
    dense = partition(case.data, grid=(2, 2))
    sparse = [Shard(shard.ids, shard.features, csr_array(shard.X), shard.y) for shard in dense]
    runs = [Simulation.of(shards, SETTINGS) for shards in (dense, sparse)]
    for run in runs:
        run.run(5)
    np.testing.assert_allclose(runs[0].model(), runs[1].model(), rtol=0.0, atol=1e-8)
