"""Bounds on what a server has opened: every refusal says the same, and a few refusals lock the run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fenchel.v1 import hyfdca_pb2
from fenchel_client.runrecords import MAX_REFUSALS
from fenchel_client.statefolder import StateFolder
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import DualTask, PrimalTask, ProductTask, StateUpdate
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.paillier import PublicKey, concatenate
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.setup import FINISH, INTRODUCE, LAYOUT, NOT_USABLE
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import OTHER, RUN, SHARDS, Federation, Listener, config, finish, layout_of, refused


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_a_key_that_a_party_gave_up_is_not_taken_again(federation: Federation) -> None:
    listener = Listener()
    done = federation.set_up(to_party=listener)
    beyond = products_of(done, layout_of(listener.tasks[LAYOUT]), 1.5 * PRODUCT_FORMAT.bound)
    folder = StateFolder(federation.directory / OTHER)
    kept = folder.run(RUN)
    assert kept is not None
    folder.keep_run(RUN, replace(kept, secrets=None))
    assert refused(federation, LAYOUT, listener.tasks[LAYOUT]).public_reason == "it has given this key up"
    federation.parties[OTHER] = federation.party(OTHER)
    assert "does not have the key" in refused(federation, "local_dual", beyond, round_id=1).public_reason


def products_of(done: SetupDone, layout: ClientLayout, value: float) -> bytes:
    """Inner products of the server's own making: within their bound, or beyond it."""
    key = PublicKey.from_bytes(done.record.public_key)
    slots = slot_layout(PRODUCT_FORMAT, key.bits)
    values = np.zeros(len(layout.block_ids) * layout.slots)
    values[0] = value / 2.0
    plaintexts = [2 * m for m in slots.pack(PRODUCT_FORMAT.quantise(values))]
    numbers = [(1 + m * key.n) % key.n_squared for m in plaintexts]
    vector = EncryptedVector(key, PRODUCT_FORMAT, values.size, 1, concatenate(numbers, key.ciphertext_bytes))
    blocks = tuple(layout.block_ids.tolist())
    task = DualTask(
        StateUpdate(),
        None,
        BlockVector(blocks, vector),
        (),
        (),
        gamma=1.0,
        step_scale=1.0,
        report_blocks=blocks,
        with_losses=True,
    )
    return wire.dual_task_to_bytes(task)


def foreign(body: bytes) -> bytes:
    """The same task with numbers that nobody encrypted."""
    task = hyfdca_pb2.HyfdcaDualTask.FromString(body)
    encrypted = task.products.vector.encrypted
    encrypted.ciphertexts = b"\x07".ljust(512, b"\x00") * (len(encrypted.ciphertexts) // 512)
    return task.SerializeToString()


def test_every_refusal_after_decryption_is_the_same_and_a_few_lock_the_run_for_good(tmp_path: Path) -> None:
    federation, listener = Federation(tmp_path), Listener()
    done = federation.set_up(to_party=listener)
    layout = layout_of(listener.tasks[LAYOUT])
    good, beyond = products_of(done, layout, 1.0), products_of(done, layout, 1.5 * PRODUCT_FORMAT.bound)
    assert federation.answer(OTHER, "local_dual", good, round_id=1)
    reasons = [refused(federation, "local_dual", task, round_id=1).public_reason for task in (beyond, foreign(good))]
    assert reasons == [NOT_USABLE] * 2
    assert federation.answer(OTHER, "local_dual", good, round_id=1), "two mishaps are no lock"
    federation.parties[OTHER] = federation.party(OTHER)
    assert refused(federation, "local_dual", beyond, round_id=1).public_reason == NOT_USABLE
    assert MAX_REFUSALS == 3
    for _ in range(2):
        assert "takes no further part" in refused(federation, "local_dual", good, round_id=1).public_reason
        federation.parties[OTHER] = federation.party(OTHER)
    assert "takes no further part" in refused(federation, INTRODUCE, terms_to_bytes(config())).public_reason
    assert "takes no further part" in refused(federation, FINISH, finish(), round_id=9).public_reason
    kept = (tmp_path / OTHER / f"{RUN}.run").read_bytes()
    assert b"paillier private key" not in kept, "a locked run has no use for its key"


def test_values_that_outgrow_the_vectors_by_what_an_earlier_task_opened_count_too(federation: Federation) -> None:
    listener = Listener()
    done = federation.set_up(to_party=listener)
    layout, key = layout_of(listener.tasks[LAYOUT]), PublicKey.from_bytes(done.record.public_key)
    blocks = tuple(layout.feature_blocks)
    large = np.zeros(len(blocks) * layout.slots, dtype=np.int64)
    large[: len(SHARDS[OTHER].features)] = 1 << 62
    numbers = [(1 + m * key.n) % key.n_squared for m in slot_layout(PRODUCT_FORMAT, key.bits).pack(large)]
    vector = EncryptedVector(key, PRODUCT_FORMAT, large.size, 1024, concatenate(numbers, key.ciphertext_bytes))
    sync = wire.primal_task_to_bytes(PrimalTask(StateUpdate(model=BlockVector(blocks, vector))))
    products = wire.product_task_to_bytes(ProductTask(StateUpdate(), (0,)))
    for _ in range(MAX_REFUSALS):
        federation.answer(OTHER, "sync", sync, round_id=1)
        assert refused(federation, "inner_product", products, round_id=1).public_reason == NOT_USABLE
    assert "takes no further part" in refused(federation, "sync", sync, round_id=1).public_reason
