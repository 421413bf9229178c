"""The layout of a federation in one process, without an alignment between its parties."""

from collections.abc import Sequence

import numpy as np

from fenchel_client.preparedtable import table_of_run
from fenchel_client.table import PartyTable
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.data.shard import Shard
from fenchel_common.defaults import DEMO_KEY_BITS
from fenchel_common.ids import ClientId
from fenchel_common.labelrules import LabelRules
from fenchel_common.labelscaling import LabelScaling
from fenchel_server.cohorts import Alignment, OverlapRule, lay_out
from fenchel_server.holdings import Holding

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


def label_scaling_of(shards: Sequence[Shard], rules: LabelRules) -> LabelScaling:
    """The scaling that the parties would learn in a set-up; every sample counts once."""
    labels = {
        sample: label
        for shard in shards
        if shard.y is not None
        for sample, label in zip(shard.ids, shard.y.tolist(), strict=True)
    }
    return LabelScaling.of_labels(rules, np.array(list(labels.values())))


def table_in_run(shard: Shard, labels: LabelScaling, rules: LabelRules) -> PartyTable:
    """The table of `table_of`, with labels as a run of these rules uses them."""
    return table_of_run(table_of(shard), rules, scaling=b"", labels=labels.to_bytes())
