"""What a party does not let a server do: take encryption away, choose the rows, ask on and on, replace the model."""

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel.v1 import averaging_pb2, hyfdca_pb2
from fenchel_client.coverage import check_coverage
from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from fenchel_client.party import MAX_REFUSALS, MAX_SETUPS_WITHOUT_A_LAYOUT, Party
from fenchel_client.setup import Consent, public_key_of
from fenchel_client.statefolder import StateFolder
from fenchel_common.algorithms.averaging import rails as averaging
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.algorithms.hyfdca.messages import DualTask, PrimalTask, ProductTask, StateUpdate
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout, IgnoredFeatures
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.paillier import PublicKey, concatenate
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.errors import InvalidInput, Refusal, WrongTerms
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import (
    FINISH,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    LAYOUT,
    NOT_USABLE,
    ModelPart,
    RunSecrets,
)
from fenchel_common.wire import averaging as averaging_wire
from fenchel_common.wire import hyfdca as wire
from fenchel_common.wire.alignment import client_layout_from_bytes, client_layout_to_bytes
from fenchel_common.wire.ceremony import introductions_to_bytes
from fenchel_common.wire.setup import (
    introduction_from_bytes,
    key_take_from_bytes,
    key_take_to_bytes,
    model_part_to_bytes,
    terms_to_bytes,
)
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import HOLDER, NAMES, OTHER, RUN, SHARDS, Federation, config, only
from support.keys import private_key

PLAIN = config(privacy="plain", benchmark=True)
KEY = private_key_to_bytes(private_key(2048))


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


class Listener:
    """A relay that keeps what it carried to one party."""

    def __init__(self, party: ClientId = OTHER) -> None:
        self.party = party
        self.tasks: dict[str, bytes] = {}

    def __call__(self, phase: str, client: ClientId, body: bytes) -> bytes:
        if client == self.party:
            self.tasks[phase] = body
        return body


def refused(federation: Federation, phase: str, body: bytes, *, round_id: int = 0, run: RunId = RUN) -> Refusal:
    with pytest.raises(Refusal) as caught:
        federation.answer(OTHER, phase, body, round_id=round_id, run=run)
    return caught.value


def test_the_key_blob_of_a_run_in_clear_takes_no_key_from_a_sealed_run_of_the_same_id(tmp_path: Path) -> None:
    earlier, listener = Federation(tmp_path / "earlier"), Listener()
    earlier.set_up(PLAIN, to_party=listener)
    federation = Federation(tmp_path / "now")
    federation.kits = earlier.kits
    federation.parties = {ClientId(name): federation.party(name) for name in NAMES}
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another configuration" in str(refused(federation, KEY_TAKE, listener.tasks[KEY_TAKE]))
    assert "no key" in refused(federation, "align_0", b"").public_reason


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (config(key={"bits": 3072}), "another configuration"),
        (config(key={"bits": 2048, "kind": "subgroup"}), "another configuration"),
        (config(seed=7), "another configuration"),
    ],
)
def test_a_party_that_was_told_other_terms_than_the_key_holder_takes_no_key(
    federation: Federation, terms: RunConfig, reason: str
) -> None:
    def tell_other_terms(phase: str, client: ClientId, body: bytes) -> bytes:
        return terms_to_bytes(terms) if phase == INTRODUCE and client == OTHER else body

    with pytest.raises(Refusal, match=reason):
        federation.set_up(to_party=tell_other_terms)


@pytest.mark.parametrize(
    ("held", "terms", "said"),
    [
        (b"", config(), "it is encrypted, but there is no key"),
        (private_key_to_bytes(private_key(2048)), PLAIN, "nothing is encrypted, but there is a key"),
        (
            private_key_to_bytes(private_key(2048)),
            config(key={"bits": 3072}),
            "3072 bits, but it is a standard key of 2048",
        ),
        (
            private_key_to_bytes(private_key(2048)),
            config(key={"bits": 2048, "kind": "subgroup"}),
            "name a subgroup key",
        ),
    ],
)
def test_a_key_that_is_not_the_one_of_the_terms_is_refused(held: bytes, terms: RunConfig, said: str) -> None:
    """The terms are bound into the blob, and still the key itself is compared with them."""
    with pytest.raises(WrongTerms, match=said):
        public_key_of(RunSecrets(held, bytes(32), bytes(32)), terms)


def layout_of(body: bytes) -> ClientLayout:
    shard = SHARDS[OTHER]
    return client_layout_from_bytes(body, samples=len(shard.ids), features=len(shard.features))


def whole_layout(federation: Federation, terms: RunConfig | None = None) -> ClientLayout:
    listener = Listener()
    federation.set_up(terms, to_party=listener)
    return layout_of(listener.tasks[LAYOUT])


def one_row(layout: ClientLayout) -> ClientLayout:
    one = np.ones(1, dtype=np.int64)
    return replace(layout, block_ids=0 * one, block_sizes=one, holder_counts=one, shared=one > 1, rows=0 * one)


def one_feature(layout: ClientLayout) -> ClientLayout:
    return replace(layout, feature_blocks={0: np.zeros(1, dtype=np.int64)})


def without_a_feature(layout: ClientLayout) -> ClientLayout:
    return replace(layout, ignored=(IgnoredFeatures(np.zeros(1, dtype=np.int64), layout.block_ids),))


def a_block_for_each_row(layout: ClientLayout) -> ClientLayout:
    ones = np.ones(len(layout.rows), dtype=np.int64)
    return replace(layout, block_ids=np.arange(len(ones)), block_sizes=ones, holder_counts=ones, shared=ones > 0)


def few_slots(layout: ClientLayout) -> ClientLayout:
    slots = len(layout.rows)
    return replace(a_block_for_each_row(layout), slots=slots) if slots < layout.slots else replace(layout, slots=40)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (one_row, "rows: places 1 of this party's 40 rows"),
        (one_feature, "feature_blocks: places 1 of this party's 2 features"),
        (without_a_feature, "ignored: .*overlap"),
        (a_block_for_each_row, "more than 2 blocks are not full"),
        (few_slots, "slots"),
    ],
)
def test_a_layout_that_singles_out_rows_or_features_is_refused(tmp_path: Path, change: object, reason: str) -> None:
    federation = Federation(tmp_path)
    assert callable(change)
    tamper = only(LAYOUT, lambda body: client_layout_to_bytes(change(layout_of(body))))
    with pytest.raises(Refusal, match=reason) as caught:
        federation.set_up(to_party=lambda phase, client, body: tamper(phase, client, body) if client == OTHER else body)
    assert caught.value.public_reason.startswith("it refused its layout")
    assert not list((tmp_path / OTHER).glob("*.run"))


def test_features_are_left_out_only_of_shared_rows_and_never_at_the_first_party(federation: Federation) -> None:
    terms, roster = config(overlap="first"), federation.kits[OTHER].roster
    layout = without_a_feature(whole_layout(federation, terms))
    check_coverage(layout, shard=SHARDS[OTHER], config=terms, roster=roster, name=OTHER)
    with pytest.raises(InvalidInput, match="no party comes before this one"):
        check_coverage(layout, shard=SHARDS[OTHER], config=terms, roster=roster, name=HOLDER)
    alone = replace(layout, shared=~layout.shared)
    with pytest.raises(InvalidInput, match=r"rows that nobody else holds|not full"):
        check_coverage(alone, shard=SHARDS[OTHER], config=terms, roster=roster, name=OTHER)


def test_a_key_has_one_layout_in_mid_run_and_after_a_restart(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    body = listener.tasks[LAYOUT]
    federation.answer(OTHER, LAYOUT, body)
    layout = layout_of(body)
    other = client_layout_to_bytes(replace(layout, rows=layout.rows[::-1]))
    assert refused(federation, LAYOUT, other).public_reason == "it has another layout for this key"
    federation.parties[OTHER] = federation.party(OTHER)
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another set-up" in str(refused(federation, KEY_TAKE, listener.tasks[KEY_TAKE]))
    assert "restarted during the set-up" in refused(federation, LAYOUT, other).public_reason


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


def test_a_set_up_with_a_fresh_key_may_bring_another_layout(federation: Federation) -> None:
    federation.set_up()
    federation.set_up()


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


def finish(state: bytes = b"") -> bytes:
    return model_part_to_bytes(ModelPart(state, primal=0.5, dual=0.4, gap=0.1))


def test_the_end_of_a_past_run_changes_nothing_and_its_model_is_for_its_owner_alone(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    federation.answer(OTHER, FINISH, finish(), round_id=9)
    model = federation.directory / OTHER / f"{RUN}.model.npz"
    before = model.read_bytes()
    assert stat.S_IMODE(model.stat().st_mode) == 0o600
    for _ in range(2):
        assert federation.answer(OTHER, FINISH, finish(b"other"), round_id=9) == b""
        federation.parties[OTHER] = federation.party(OTHER)
    assert model.read_bytes() == before
    assert refused(federation, INTRODUCE, terms_to_bytes(config())).public_reason == "the run is over at this party"


def test_after_the_end_no_layout_comes_back_for_the_key_that_is_gone(federation: Federation) -> None:
    listener = Listener()
    federation.set_up(to_party=listener)
    federation.answer(OTHER, FINISH, finish(), round_id=9)
    for body in (listener.tasks[LAYOUT], client_layout_to_bytes(one_row(layout_of(listener.tasks[LAYOUT])))):
        assert "restarted during the set-up" in refused(federation, LAYOUT, body).public_reason
    assert not list((federation.directory / OTHER).glob("*.run"))


def test_the_key_of_an_earlier_set_up_does_not_open_in_a_later_one(federation: Federation) -> None:
    """Also not that of a run whose files were deleted or moved away: the nonce of a set-up is never used again."""
    first = Listener()
    federation.set_up(to_party=first)
    federation.set_up()
    for path in (federation.directory / OTHER).iterdir():
        path.unlink()
    federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()))
    assert "another set-up" in str(refused(federation, KEY_TAKE, first.tasks[KEY_TAKE]))


def test_consent_that_was_taken_back_holds_for_runs_under_way(federation: Federation, tmp_path: Path) -> None:
    federation.set_up()
    kit = federation.kits[OTHER]
    federation.parties[OTHER] = Party(kit, SHARDS[OTHER], state=tmp_path / OTHER, consent=Consent())
    reason = refused(federation, "local_dual", b"", round_id=1).public_reason
    assert reason == "its operator does not accept: 2048-bits, hmac"


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


def averaging_task(cut: dict[int, NDArray[np.int64]], base: Vector | None = None) -> bytes:
    given = {} if base is None else {averaging.MODEL: BlockVector((0,), base)}
    state = averaging.StateUpdate(reset=True, layout=cut, base=given)
    return averaging_wire.task_to_bytes(averaging.Task(RoundId(1), 0, state, norm_blocks=(0,)))


def test_a_party_on_the_averaging_rails_takes_one_cut_of_its_features(federation: Federation) -> None:
    federation.set_up(config(algorithm="fedavg", settings={"lambda": 0.1}))
    whole, single = {0: np.array([0, 1])}, {0: np.array([0]), 1: np.array([1])}
    federation.answer(OTHER, "measure", averaging_task(whole), round_id=1)
    for cut in (single, {0: np.array([1, 0])}):
        with pytest.raises(InvalidInput, match=r"state\.layout"):
            federation.answer(OTHER, "measure", averaging_task(cut), round_id=1)


def test_that_values_diverged_counts_towards_the_lock(federation: Federation) -> None:
    """Whether they did depends on what was opened: the server must not ask for it again and again."""
    done = federation.set_up(config(algorithm="fedavg", settings={"lambda": 0.1}))
    key = PublicKey.from_bytes(done.record.public_key)
    slots = slot_layout(averaging.MODEL_FORMAT, key.bits)
    large = np.full(slots.slots, 1 << 62, dtype=np.int64)
    numbers = [(1 + m * key.n) % key.n_squared for m in slots.pack(large)]
    vector = EncryptedVector(key, averaging.MODEL_FORMAT, large.size, 1024, concatenate(numbers, key.ciphertext_bytes))
    entry = averaging.Entry(RoundId(1), {}, {0: 1.0}, {averaging.MODEL: BlockVector((0,), vector)})
    state = averaging.StateUpdate(reset=True, layout={0: np.array([0, 1])}, entries=(entry,))
    body = averaging_wire.task_to_bytes(averaging.Task(RoundId(2), 0, state))
    for _ in range(MAX_REFUSALS):
        assert averaging_pb2.AveragingResult.FromString(federation.answer(OTHER, "local", body, round_id=2)).diverged
    assert "takes no further part" in refused(federation, "local", body, round_id=2).public_reason


def test_the_end_of_a_run_that_a_party_does_not_know_leaves_no_file(federation: Federation) -> None:
    assert "does not have the key" in refused(federation, FINISH, finish(), round_id=9).public_reason
    assert not any((federation.directory / OTHER).iterdir())


def test_introductions_leave_no_files_and_set_ups_that_come_to_nothing_have_an_end(federation: Federation) -> None:
    party, terms = federation.parties[OTHER], terms_to_bytes(config())
    for number in range(MAX_SETUPS_WITHOUT_A_LAYOUT):
        federation.answer(OTHER, INTRODUCE, terms, run=RunId(f"run-{number}"))
        with party.idle():
            pass
    assert not any((federation.directory / OTHER).iterdir())
    assert "came to nothing" in refused(federation, INTRODUCE, terms, run=RunId("one-more")).public_reason


def test_a_key_holder_makes_one_key_for_each_introduction(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay may repeat its request, but not have keys made without end."""
    made: list[int] = []

    def counted(bits: int, kind: KeyKind) -> PrivateKey:
        made.append(bits)
        return generate_private_key(bits, kind)

    monkeypatch.setattr("fenchel_client.setup.generate_private_key", counted)
    introduced = federation.introduced()
    for _ in range(3):
        federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes(introduced))
    assert made == [2048]


def test_a_key_holder_seals_its_secrets_for_one_list_of_introductions(federation: Federation) -> None:
    first = federation.introduced()
    federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes(first))
    again = introduction_from_bytes(federation.answer(OTHER, INTRODUCE, terms_to_bytes(config())))
    with pytest.raises(Refusal, match="second list of introductions"):
        federation.answer(HOLDER, KEY_MAKE, introductions_to_bytes([first[0], again]))


@pytest.mark.parametrize("run", ["ü" * 80, "../x", ".hidden", "a" * 65, ""])
def test_a_run_whose_id_cannot_be_a_file_name_is_refused_before_anything_is_kept(
    federation: Federation, run: str
) -> None:
    with pytest.raises(InvalidInput, match="run id"):
        federation.answer(OTHER, INTRODUCE, terms_to_bytes(config()), run=RunId(run))
    with federation.parties[OTHER].idle():
        pass


def test_a_swapped_public_key_beside_a_run_in_clear_is_noticed(federation: Federation) -> None:
    def add_key(body: bytes) -> bytes:
        return key_take_to_bytes(replace(key_take_from_bytes(body), public_key=b"\x05"))

    with pytest.raises(Refusal, match="public key"):
        federation.set_up(PLAIN, to_party=only(KEY_TAKE, add_key))
