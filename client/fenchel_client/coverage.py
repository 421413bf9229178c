"""The server's layout as this party reads it, and its check against this party's own data, roster and terms.

A server that chose the layout freely could have a party work on one row and one feature, and read the cell off the
model. So the layout must have every row and every feature of the shard, in blocks as full as they can be.
"""

import numpy as np
from numpy.typing import NDArray

from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PartyRun
from fenchel_common.wire.alignment import client_layout_from_bytes


def client_layout_of(kept: PartyRun, table: PartyTable) -> ClientLayout:
    """The layout in the record of a run, with features counted as the server does."""
    return client_layout_from_bytes(kept.layout, samples=len(table.ids), features=len(table.features))


def check_coverage(
    layout: ClientLayout, *, table: PartyTable, config: RunConfig, roster: Roster, name: ClientId
) -> None:
    """Refuses a layout that leaves out a row or a feature, or cuts them into more blocks than needed.

    Only the server knows which parties hold which samples. But with K parties the rows of one party form at most
    2^(K−1) cohorts, and all blocks of a cohort but the last are full.
    """
    if layout.slots != slot_layout(VectorFormat(), config.key.bits).slots:
        raise InvalidInput("layout: slots: not as many as fit into a ciphertext of the run's key")
    if len(layout.rows) != len(table.ids):
        raise InvalidInput(f"layout: rows: has {len(layout.rows)} of this party's {len(table.ids)} rows, not all")
    sizes = np.array([len(positions) for positions in layout.feature_blocks.values()], dtype=np.int64)
    if sizes.sum() != len(table.features):
        raise InvalidInput(
            f"layout: feature_blocks: has {sizes.sum()} of this party's {len(table.features)} features, not all"
        )
    if layout.label_holder_counts.max(initial=0) > len(roster.parties):
        raise InvalidInput("layout: label_holder_counts: more label holders than there are parties")
    _check_full(layout.block_sizes[~layout.shared], layout.slots, cohorts=1, field="block_sizes of unshared rows")
    cohorts = 1 << (len(roster.parties) - 1)
    _check_full(layout.block_sizes, layout.slots, cohorts=cohorts, field="block_sizes")
    _check_full(sizes, layout.slots, cohorts=cohorts, field="feature_blocks")
    _check_ignored(layout, table=table, config=config, first=name == roster.names[0])


def _check_full(sizes: NDArray[np.int64], slots: int, *, cohorts: int, field: str) -> None:
    if np.count_nonzero(sizes < slots) > cohorts:
        raise InvalidInput(f"layout: {field}: more than {cohorts} blocks are not full, more than needed")


def _check_ignored(layout: ClientLayout, *, table: PartyTable, config: RunConfig, first: bool) -> None:
    """Refuses ignored features unless the terms allow them and an earlier party can give them."""
    if not layout.ignored:
        return
    if config.overlap != "first":
        raise InvalidInput('layout: ignored: features are left out, but the run\'s terms do not say overlap = "first"')
    if first:
        raise InvalidInput("layout: ignored: no party comes before this one in the roster")
    shared = layout.block_ids[layout.shared]
    for cut in layout.ignored:
        if not np.isin(cut.block_ids, shared).all():
            raise InvalidInput("layout: ignored: features of rows that nobody else holds are left out")
        if cut.features.max() >= len(table.features):
            raise InvalidInput("layout: ignored: points to a feature that this party does not hold")
