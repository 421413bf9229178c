"""The introductions of a set-up through an untrusted relay: what an altered, repeated or earlier one leads to."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fenchel_client.crypto.introductions import fresh_key, introduce
from fenchel_client.setup import NOT_INTRODUCED
from fenchel_common.errors import NotForUs, Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.setup import KEY_MAKE, KEY_TAKE, Introduction
from fenchel_common.wire.ceremony import introductions_from_bytes, introductions_to_bytes
from fenchel_common.wire.setup import key_take_from_bytes, key_take_to_bytes
from support.ceremony import NAMES, OTHER, RUN, Federation, config, only
from support.kits import make_federation
from support.tables import named_shards, small_dataset


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)


def test_a_server_that_slips_in_a_certificate_of_its_own_gets_no_key(federation: Federation, tmp_path: Path) -> None:
    stranger = Kit.load(make_federation(tmp_path / "foreign", NAMES)[OTHER])
    forged = introduce(stranger, fresh_key().public_key(), run=RUN, terms=config().digest())
    with pytest.raises(Refusal) as caught:
        federation.set_up(to_party=only(KEY_MAKE, relisted(lambda listed: [listed[0], forged])))
    assert caught.value.public_reason == NOT_INTRODUCED


def relisted(change: Callable[[tuple[Introduction, ...]], Sequence[Introduction]]) -> Callable[[bytes], bytes]:
    """A relay that alters the list of introductions on its way to the key holder."""
    return lambda body: introductions_to_bytes(change(introductions_from_bytes(body)))


@pytest.mark.parametrize(
    "change",
    [
        lambda listed: listed[:1],
        lambda listed: listed[1:],
        lambda listed: (*listed, listed[1]),
        lambda listed: (listed[0], replace(listed[1], ephemeral_key=listed[0].ephemeral_key)),
        lambda listed: (listed[0], replace(listed[1], signature=listed[0].signature)),
    ],
    ids=["recipient left out", "holder left out", "repeated", "key exchanged", "signature exchanged"],
)
def test_an_altered_list_of_introductions_gets_no_key(
    federation: Federation, change: Callable[[tuple[Introduction, ...]], Sequence[Introduction]]
) -> None:
    with pytest.raises(Refusal) as caught:
        federation.set_up(to_party=only(KEY_MAKE, relisted(change)))
    assert caught.value.public_reason == NOT_INTRODUCED


def test_a_key_holder_that_finds_an_earlier_introduction_of_its_own_makes_no_key(federation: Federation) -> None:
    earlier = federation.introduced()
    with pytest.raises(Refusal, match="gave in another set-up"):
        federation.set_up(to_party=only(KEY_MAKE, relisted(lambda listed: [earlier[0], listed[1]])))


def test_a_party_whose_earlier_introduction_went_to_the_key_holder_takes_no_key(federation: Federation) -> None:
    """The server shows the key holder an introduction of before, and tells the party of either."""
    earlier = federation.introduced()[1]

    def swap(body: bytes) -> bytes:
        take = key_take_from_bytes(body)
        return key_take_to_bytes(replace(take, introductions=(take.introductions[0], earlier)))

    replay = relisted(lambda listed: [listed[0], earlier])
    for to_party in (only(KEY_TAKE, swap), only(KEY_MAKE, replay)):
        with pytest.raises(Refusal, match="another set-up"):
            federation.set_up(to_party=to_party)


def test_a_list_that_is_not_the_one_of_the_key_holder_is_noticed(tmp_path: Path) -> None:
    """The server tells a third party of another introduction than the key holder has sealed for."""
    shards = named_shards(small_dataset(40, 6), grid=(1, 3))
    federation, third = Federation(tmp_path, shards=shards), ClientId(list(shards)[2])
    earlier = federation.introduced()[1]

    def tell_another(phase: str, client: ClientId, body: bytes) -> bytes:
        if phase != KEY_TAKE or client != third:
            return body
        take = key_take_from_bytes(body)
        return key_take_to_bytes(replace(take, introductions=(take.introductions[0], earlier, take.introductions[2])))

    with pytest.raises(Refusal, match="another set-up of this run, with other introductions"):
        federation.set_up(to_party=tell_another)


def test_a_key_that_was_sealed_for_another_is_refused_as_such_and_the_right_one_is_taken(tmp_path: Path) -> None:
    shards = named_shards(small_dataset(40, 6), grid=(1, 3))
    federation = Federation(tmp_path, shards=shards)
    tasks: list[bytes] = []

    def confuse(phase: str, client: ClientId, body: bytes) -> bytes:
        if phase == KEY_TAKE:
            for other in tasks:
                with pytest.raises(Refusal) as refused:
                    federation.answer(client, KEY_TAKE, other)
                assert isinstance(refused.value.__cause__, NotForUs)
            tasks.append(body)
        return body

    assert federation.set_up(to_party=confuse).record.key_bits == 2048
    assert len(tasks) == 2


def test_a_key_is_handed_over_once_in_a_set_up(federation: Federation) -> None:
    taken: list[bytes] = []

    def record(body: bytes) -> bytes:
        taken.append(body)
        return body

    federation.set_up(to_party=only(KEY_TAKE, record))
    with pytest.raises(Refusal, match="a second time"):
        federation.answer(OTHER, KEY_TAKE, taken[0])


def test_what_was_sealed_in_an_earlier_set_up_of_the_run_does_not_open_again(federation: Federation) -> None:
    taken: list[bytes] = []

    def record(body: bytes) -> bytes:
        taken.append(body)
        return body

    federation.set_up(to_party=only(KEY_TAKE, record))
    with pytest.raises(Refusal, match="gave in another set-up"):
        federation.set_up(to_party=only(KEY_TAKE, lambda _: taken[0]))
