"""The keys of masks: made in the set-up, by the first holder of each group, for the other holders and nobody else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_client import runsecrets, setup
from fenchel_client.crypto import groupkeys
from fenchel_client.crypto.groupkeys import mask_keys, sealed_group_keys
from fenchel_client.crypto.keywrap import wrap
from fenchel_client.crypto.masks import MaskKeys
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import FenchelError, Refusal, ResultRejected
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import GROUP_KEYS, LAYOUT, GroupKey, MaskSecrets, PartyRun, RunSecrets
from fenchel_common.wire.alignment import client_layout_from_bytes, client_layout_to_bytes
from fenchel_common.wire.groupkeys import group_keys_from_bytes, group_keys_to_bytes, sealed_keys_from_bytes
from fenchel_common.wire.limits import FRAME_BYTES, group_keys_limit
from fenchel_common.wire.setup import party_run_from_bytes, secrets_from_bytes
from support.ceremony import RUN, Federation, Tamper, config, only
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(40, 4), grid=(2, 2))
ONE, TWO, THREE, FOUR = CLIENTS = tuple(ClientId(name) for name in SHARDS)
MASKED = config(cipher="masks")
Change = Callable[[Sequence[GroupKey]], Sequence[GroupKey]]


@pytest.fixture(scope="module")
def crossed() -> list[tuple[str, ClientId, bytes]]:
    """All that passed the server in the set-up of `federation`."""
    return []


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory, crossed: list[tuple[str, ClientId, bytes]]) -> Federation:
    """After the set-up of a run with masks."""
    made = Federation(tmp_path_factory.mktemp("masked"), shards=SHARDS)

    def listen(phase: str, client: ClientId, body: bytes) -> bytes:
        crossed.append((phase, client, body))
        return body

    done = made.set_up(MASKED, to_party=listen, to_server=listen)
    assert (done.record.public_key, done.record.key_fingerprint) == (b"", None)
    return made


def kept_by(federation: Federation, party: ClientId) -> PartyRun:
    return party_run_from_bytes((federation.directory / party / f"{RUN}.run").read_bytes())


def layout_of(kept: PartyRun, party: ClientId) -> ClientLayout:
    shard = SHARDS[party]
    return client_layout_from_bytes(kept.layout, party=party, samples=len(shard.ids), features=len(shard.features))


def own_masks(kept: PartyRun) -> MaskSecrets:
    assert kept.secrets is not None
    assert kept.secrets.masks is not None
    return kept.secrets.masks


def keys_at(
    federation: Federation,
    party: ClientId,
    *,
    run: RunId = RUN,
    view: bytes | None = None,
    change: Change = tuple,
) -> MaskKeys:
    kept = kept_by(federation, party)
    assert kept.secrets is not None
    sealed = change(sealed_keys_from_bytes(kept.layout, CLIENTS))
    return mask_keys(run, kept.secrets, layout_of(kept, party), view=kept.view if view is None else view, sealed=sealed)


def test_holders_of_a_group_and_no_others_have_its_key(federation: Federation) -> None:
    keys = {party: keys_at(federation, party) for party in CLIENTS}
    by_group: dict[tuple[ClientId, ...], dict[ClientId, bytes]] = {}
    for party, own in keys.items():
        for group, key in own.groups.items():
            by_group.setdefault(group, {})[party] = key
    alone = {(party,) for party in CLIENTS}
    assert set(by_group) == {(), (ONE, TWO), (THREE, FOUR), (ONE, THREE), (TWO, FOUR), *alone}
    for group, known in by_group.items():
        assert set(known) == set(group or CLIENTS)
        assert len(set(known.values())) == 1
    assert len({key for known in by_group.values() for key in known.values()}) == len(by_group)


def test_each_pair_of_parties_has_a_key_of_its_own(federation: Federation) -> None:
    pairs = {party: own_masks(kept_by(federation, party)).pairs for party in CLIENTS}
    for party, own in pairs.items():
        assert set(own) == set(CLIENTS) - {party}
        assert all(key == pairs[other][party] for other, key in own.items())
    assert len({key for own in pairs.values() for key in own.values()}) == 6


def test_no_key_of_masks_passes_the_server(federation: Federation, crossed: list[tuple[str, ClientId, bytes]]) -> None:
    passed = b"".join(body for _, _, body in crossed)
    for party in CLIENTS:
        masks, keys = own_masks(kept_by(federation, party)), keys_at(federation, party)
        for secret in (masks.group_secret, *masks.pairs.values(), *keys.groups.values()):
            assert len(secret) == 32
            assert secret not in passed


def test_a_party_gets_the_keys_that_are_for_it(
    crossed: list[tuple[str, ClientId, bytes]], federation: Federation
) -> None:
    del federation
    results = {client: body for phase, client, body in crossed[1::2] if phase == GROUP_KEYS}
    made = {client: group_keys_from_bytes(body, CLIENTS) for client, body in results.items()}
    assert {(key.holders, key.recipient) for key in made[ONE]} == {((ONE, TWO), TWO), ((ONE, THREE), THREE)}
    assert made[FOUR] == ()
    tasks = {client: body for phase, client, body in crossed[0::2] if phase == LAYOUT}
    assert {key.recipient for key in sealed_keys_from_bytes(tasks[FOUR], CLIENTS)} == {FOUR}
    assert {key.holders[0] for key in sealed_keys_from_bytes(tasks[FOUR], CLIENTS)} == {TWO, THREE}


def test_the_limit_of_sealed_keys_is_above_what_parties_send(
    federation: Federation, crossed: list[tuple[str, ClientId, bytes]]
) -> None:
    for phase, client, body in crossed[1::2]:
        if phase == GROUP_KEYS:
            limit = group_keys_limit(layout_of(kept_by(federation, client), client))
            assert len(body) <= limit <= len(body) + 2 * FRAME_BYTES


def without(position: int) -> Change:
    return lambda keys: [key for number, key in enumerate(keys) if number != position]


def flipped(keys: Sequence[GroupKey]) -> Sequence[GroupKey]:
    return [replace(key, sealed=key.sealed[:-1] + bytes([key.sealed[-1] ^ 1])) for key in keys]


def crossed_over(keys: Sequence[GroupKey]) -> Sequence[GroupKey]:
    """The keys of two groups, each as that of the other."""
    one, other = keys
    return [replace(one, sealed=other.sealed), replace(other, sealed=one.sealed)]


ALTERED: dict[str, Change] = {
    "missing": lambda _: [],
    "one missing": without(0),
    "altered": flipped,
    "exchanged": crossed_over,
    "cut off": lambda keys: [replace(key, sealed=key.sealed[:20]) for key in keys],
    "empty": lambda keys: [replace(key, sealed=b"") for key in keys],
    "for somebody else": lambda keys: [replace(key, recipient=ONE) for key in keys],
    "of another group": lambda keys: [replace(key, holders=(ONE, FOUR)) for key in keys],
}


@pytest.mark.parametrize("change", ALTERED.values(), ids=ALTERED)
def test_a_party_does_not_go_on_without_the_true_keys_of_its_groups(federation: Federation, change: Change) -> None:
    with pytest.raises(Refusal, match="missing or does not open") as caught:
        keys_at(federation, FOUR, change=change)
    assert caught.value.public_reason == "it lacks the key of a group of holders"


def test_a_key_opens_in_its_own_run_and_layout_alone(federation: Federation) -> None:
    for run, view in ((RunId("run-2"), None), (RUN, bytes(32))):
        with pytest.raises(Refusal, match="missing or does not open"):
            keys_at(federation, FOUR, run=run, view=view)


@pytest.mark.parametrize("length", [0, 16, 65])
def test_a_key_of_another_length_is_refused(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """The first holder made it so: a short key would hide nothing."""
    monkeypatch.setattr(groupkeys, "_own_group_key", lambda *_: bytes(length))
    kept = kept_by(federation, TWO)
    made = sealed_group_keys(layout_of(kept, TWO), own_masks(kept), run=RUN, view=kept.view)
    with pytest.raises(Refusal, match="missing or does not open"):
        keys_at(federation, FOUR, change=lambda keys: [*keys, *made])


def test_a_party_without_masks_has_no_keys(federation: Federation) -> None:
    kept = kept_by(federation, ONE)
    assert kept.secrets is not None
    with pytest.raises(Refusal) as caught:
        mask_keys(RUN, replace(kept.secrets, masks=None), layout_of(kept, ONE), view=kept.view, sealed=[])
    assert caught.value.public_reason == "it does not have the key of this run"


def test_every_set_up_has_new_keys(federation: Federation, tmp_path: Path) -> None:
    before = {party: own_masks(kept_by(federation, party)) for party in CLIENTS}
    again = Federation(tmp_path, shards=SHARDS)
    again.set_up(MASKED)
    for party in CLIENTS:
        now = own_masks(kept_by(again, party))
        assert now.group_secret != before[party].group_secret
        assert not set(now.pairs.values()) & set(before[party].pairs.values())


def test_the_key_holder_sends_no_masks_and_a_party_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key holder that gives the others masks of its own choice: they make their own all the same."""
    evil = MaskSecrets(bytes(32), dict.fromkeys(CLIENTS, bytes(32)))
    honest, sent = runsecrets.fresh_secrets, list[RunSecrets]()

    def watched(content: bytes, **values: object) -> object:
        sent.append(secrets_from_bytes(content))
        return wrap(content, **values)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(setup, "wrap", watched)
    Federation(tmp_path / "honest", shards=SHARDS).set_up(MASKED)
    assert [secrets.masks for secrets in sent] == [None] * 3
    monkeypatch.setattr(setup, "fresh_secrets", lambda terms: replace(honest(terms), masks=evil))
    federation = Federation(tmp_path / "dishonest", shards=SHARDS)
    federation.set_up(MASKED)
    assert [secrets.masks for secrets in sent[3:]] == [evil] * 3
    for party in CLIENTS:
        own = own_masks(kept_by(federation, party))
        assert own.group_secret != evil.group_secret
        assert bytes(32) not in own.pairs.values()


def relayed(change: Change) -> Tamper:
    """A server that changes the sealed keys that it relays."""
    return only(GROUP_KEYS, lambda body: group_keys_to_bytes(change(group_keys_from_bytes(body, CLIENTS)), CLIENTS))


def test_a_server_that_alters_or_withholds_keys_is_refused_in_the_set_up(tmp_path: Path) -> None:
    for number, change in enumerate((flipped, lambda _: [])):
        federation = Federation(tmp_path / str(number), shards=SHARDS)
        with pytest.raises(Refusal, match="the server has withheld or altered it"):
            federation.set_up(MASKED, to_server=relayed(change))


def test_a_server_that_shows_two_layouts_gets_no_common_keys(tmp_path: Path) -> None:
    """Keys are sealed for the view that follows from the layout of the phase before."""
    federation = Federation(tmp_path, shards=SHARDS)

    def other_layout(phase: str, client: ClientId, body: bytes) -> bytes:
        if phase != GROUP_KEYS:
            return body
        shard = SHARDS[client]
        layout = client_layout_from_bytes(body, party=client, samples=len(shard.ids), features=len(shard.features))
        return client_layout_to_bytes(replace(layout, leaves=(*layout.leaves, bytes(32))))

    with pytest.raises(Refusal, match="missing or does not open"):
        federation.set_up(MASKED, to_party=other_layout)


def test_keys_are_asked_for_in_a_run_with_masks_alone(tmp_path: Path, federation: Federation) -> None:
    other = Federation(tmp_path, shards=SHARDS)
    phases: list[str] = []

    def listen(phase: str, _client: ClientId, body: bytes) -> bytes:
        phases.append(phase)
        return body

    def ask_for_keys(phase: str, client: ClientId, body: bytes) -> bytes:
        if phase == LAYOUT:
            with pytest.raises(Refusal) as caught:
                other.answer(client, GROUP_KEYS, body)
            assert caught.value.public_reason == "it has no masks"
        return body

    other.set_up(config(), to_party=ask_for_keys, to_server=listen)
    assert GROUP_KEYS not in phases
    with pytest.raises(FenchelError):
        federation.answer(ONE, GROUP_KEYS, b"")


def test_a_layout_of_other_parties_gets_no_keys(tmp_path: Path) -> None:
    federation = Federation(tmp_path, shards=SHARDS)

    def renamed(phase: str, client: ClientId, body: bytes) -> bytes:
        return body.replace(b"p3\x00p4", b"p3\x00p5") if phase == GROUP_KEYS and client == ONE else body

    with pytest.raises(Refusal, match="names other parties than the roster"):
        federation.set_up(MASKED, to_party=renamed)


def test_keys_that_are_no_keys_of_the_roster_are_a_partys_fault(tmp_path: Path) -> None:
    federation = Federation(tmp_path, shards=SHARDS)
    with pytest.raises(ResultRejected, match="p1"):
        federation.set_up(MASKED, to_server=only(GROUP_KEYS, lambda body: body.replace(b"\x10\x01", b"\x10\x09")))


def test_nothing_secret_is_shown(federation: Federation) -> None:
    kept = kept_by(federation, ONE)
    masks, keys = own_masks(kept), keys_at(federation, ONE)
    shown = repr((kept, masks, keys, sealed_keys_from_bytes(kept.layout, CLIENTS)))
    assert isinstance(kept.secrets, RunSecrets)
    for secret in (masks.group_secret, *masks.pairs.values(), *keys.groups.values()):
        assert repr(secret) not in shown
