"""A party whose process starts anew in a set-up goes on with it, from its own record."""

from pathlib import Path

import numpy as np
import pytest

from fenchel_common.data.shard import Shard
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block
from fenchel_common.setup import GROUP_KEYS, KEY_TAKE, LAYOUT, NAMES
from fenchel_common.wire.alignment import federation_layout_from_bytes
from fenchel_server.rounds.setup import SetupDone
from support.ceremony import Federation, config
from support.tables import named_shards, small_dataset

SHARDS = named_shards(small_dataset(), grid=(2, 2))
BLINDER, OWNER = ClientId("p1"), ClientId("p4")
PHASES = ("align_0", "blind_1", "blind_2", "blind_3", "blind_4", NAMES, GROUP_KEYS, LAYOUT)


class Restarting(Federation):
    """A party's process starts anew before it gets the task of one phase, once."""

    restarts: tuple[ClientId, str] | None = None

    def answer(self, name: ClientId, phase: str, body: bytes, **which: object) -> bytes:
        if self.restarts == (name, phase):
            self.restarts = None
            self.parties[name] = self.party(name)
        return super().answer(name, phase, body, **which)  # type: ignore[arg-type]


def federation_at(tmp_path: Path) -> Restarting:
    return Restarting(tmp_path, shards=SHARDS)


def blocks(done: SetupDone) -> tuple[Block, ...]:
    return federation_layout_from_bytes(done.record.layout).blocks


@pytest.mark.parametrize("party", [BLINDER, OWNER])
def test_a_party_that_restarts_in_any_phase_goes_on_and_the_layouts_are_the_same(
    tmp_path: Path, party: ClientId
) -> None:
    federation = federation_at(tmp_path)
    terms = config(alignment="blinders", cipher="masks", seed=3)
    layouts = {blocks(federation.set_up(terms))}
    for phase in PHASES:
        federation.restarts = party, phase
        layouts.add(blocks(federation.set_up(terms)))
        kept = sorted(path.name for path in (tmp_path / party).iterdir())
        assert kept == ["run-1.features.csv", "run-1.run"], "the record of the set-up is gone with the set-up"
    assert len(layouts) == 1


def test_a_party_that_restarts_before_it_has_the_key_refuses(tmp_path: Path) -> None:
    federation = federation_at(tmp_path)
    federation.restarts = OWNER, KEY_TAKE
    with pytest.raises(Refusal, match="before the terms") as caught:
        federation.set_up(config(alignment="blinders"))
    assert caught.value.public_reason == "it restarted during the set-up"


def test_a_party_that_restarts_in_the_ring_refuses(tmp_path: Path) -> None:
    """Its exponent is on no record: with another one, its samples would fit those of nobody."""
    federation = federation_at(tmp_path)
    federation.restarts = OWNER, "align_2"
    with pytest.raises(Refusal, match="during the alignment"):
        federation.set_up(config(alignment="ring"))


def test_a_party_that_restarts_with_other_data_refuses(tmp_path: Path) -> None:
    federation = federation_at(tmp_path)
    shard = SHARDS[OWNER]
    other = Shard(ids=shard.ids[1:], features=shard.features, X=np.asarray(shard.X)[1:], y=None)
    federation._shards = {**SHARDS, OWNER: other}
    federation.restarts = OWNER, NAMES
    with pytest.raises(Refusal, match="changed during the set-up"):
        federation.set_up(config(alignment="blinders"))
