"""The layout of a federation in one process, without an alignment between its parties."""

from collections.abc import Sequence

import numpy as np

from fenchel_client.table import PartyTable
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.shard import Shard
from fenchel_common.defaults import DEMO_KEY_BITS
from fenchel_common.ids import ClientId
from fenchel_server.cohorts import Alignment, Holding, OverlapRule, lay_out

KEY_BITS = DEMO_KEY_BITS
IN_CLEAR = RunKey.in_clear(KEY_BITS)


def aligned(
    shards: Sequence[Shard],
    *,
    seed: int,
    key: RunKey = IN_CLEAR,
    slot_bits: int = 64,
    overlap: OverlapRule = OverlapRule.ERROR,
) -> tuple[dict[ClientId, Shard], Alignment]:
    """The shards by client, and the layout of their samples and features; `slot_bits` is the width for samples."""
    digits = max(2, len(str(len(shards) - 1)))  # names sort in the order of the shards
    named = {ClientId(f"party-{number:0{digits}d}"): shard for number, shard in enumerate(shards)}
    holdings = [
        Holding(name, tuple(sample.encode() for sample in shard.ids), shard.features, shard.y is not None)
        for name, shard in named.items()
    ]
    slots, feature_slots = key.slots(VectorFormat(slot_bits=slot_bits)), key.slots(VectorFormat())
    return named, lay_out(holdings, slots=slots, feature_slots=feature_slots, seed=seed, overlap=overlap)


def table_of(shard: Shard) -> PartyTable:
    """A table that lists its rows in the order of the shard: without a set-up, no server sees the order."""
    return PartyTable.of(shard, np.arange(len(shard.ids)))
