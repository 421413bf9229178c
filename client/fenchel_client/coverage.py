"""The server's layout as this party reads it, and its check against this party's own data, roster and terms.

A server that chose the layout freely could have a party work on one row and one feature, and read the cell off the
model. So the layout must have every feature of the shard and every row that the run's rule for samples does not leave
out, in blocks as full as they can be. Who else holds a sample only the server knows. So a party without labels, or
without all features under `samples = "complete"`, cannot check each row that is left out, and has a least number.
"""

from typing import Final

import numpy as np

from fenchel_client.misfits import SAME_IDS
from fenchel_client.runtable import run_feature_count
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.identity import Roster
from fenchel_common.ids import ClientId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PartyRun
from fenchel_common.wire.alignment import client_layout_from_bytes

FEWEST_USED: Final = 10
"""A party does not work on fewer of its rows than this while others of its rows are left out."""


def client_layout_of(kept: PartyRun, table: PartyTable, *, party: ClientId) -> ClientLayout:
    """The layout in the record of a run, with features counted as the server does.

    `table` is the party's own or that of the run.
    """
    features = run_feature_count(table, kept.config, kept.vocabulary)
    return client_layout_from_bytes(kept.layout, party=party, samples=len(table.ids), features=features)


def check_coverage(layout: ClientLayout, *, table: PartyTable, config: RunConfig, roster: Roster) -> None:
    """Refuses a layout that leaves out a row or a feature against the run's terms.

    It must not cut a cohort into more blocks than needed. It must name the parties of the roster, and this party among
    the label holders if and only if it has labels. Raises `InvalidInput`, and `DataUnfit` where too few rows are used,
    for which the party's ids are the likely cause.
    """
    if layout.clients != roster.names:
        raise InvalidInput("layout: clients: are not the parties of the roster, in its order")
    if (layout.party in layout.label_holders) != (table.y is not None):
        raise InvalidInput("layout: label_holders: is wrong about this party")
    if (layout.slots, layout.feature_slots) != (config.sample_slots(len(roster.names)), config.feature_slots):
        raise InvalidInput("layout: slots: not as many as fit into a ciphertext of the run's key and precision")
    _check_rows(layout, table=table, config=config)
    features = sum(len(positions) for positions in layout.feature_blocks.values())
    due = len(table.features)
    if features != due:
        raise InvalidInput(f"layout: feature_blocks: has {features} of this party's {due} features, not all")
    for opened in layout.cohorts:
        full = layout.feature_slots if opened.cohort.features else layout.slots
        if any(size < full for size in opened.cohort.sizes[:-1]):
            raise InvalidInput("layout: cohorts: more than one block of a cohort is not full")
    _check_ignored(layout, table=table, config=config, first=layout.party == roster.names[0])


def _check_rows(layout: ClientLayout, *, table: PartyTable, config: RunConfig) -> None:
    """Refuses a layout that leaves out rows against the run's rule, as far as this party can know."""
    left_out = len(layout.unlabelled) + len(layout.incomplete)
    if len(layout.rows) + left_out != len(table.ids):
        raise InvalidInput(
            f"layout: rows: has {len(layout.rows) + left_out} of this party's {len(table.ids)} rows, not all"
        )
    if len(layout.unlabelled) and table.y is not None:
        raise InvalidInput("layout: unlabelled: has samples of which this party has the labels")
    if len(layout.incomplete) and config.samples != "complete":
        raise InvalidInput(
            'layout: incomplete: rows are left out, but the run\'s terms do not say samples = "complete"'
        )
    if len(layout.incomplete) and layout.feature_count == len(table.features):
        raise InvalidInput("layout: incomplete: has samples of which this party has all features")
    if config.trains and left_out and len(layout.rows) < FEWEST_USED:
        used = (
            f"uses {len(layout.rows)} of this party's {len(table.ids)} samples, leaves out the others: below "
            f"{FEWEST_USED} a model could show single samples"
        )
        raise DataUnfit(f"the run {used}; {SAME_IDS}", public_reason=f"it refused its layout: layout: rows: {used}")


def _check_ignored(layout: ClientLayout, *, table: PartyTable, config: RunConfig, first: bool) -> None:
    """Refuses ignored features unless the terms allow them and an earlier party can give them."""
    if not layout.ignored:
        return
    if config.overlap != "first" and not _of_intercept_alone(layout, config):
        raise InvalidInput('layout: ignored: features are left out, but the run\'s terms do not say overlap = "first"')
    if first:
        raise InvalidInput("layout: ignored: no party comes before this one in the roster")
    shared = layout.block_ids[layout.shared]
    for cut in layout.ignored:
        if not np.isin(cut.block_ids, shared).all():
            raise InvalidInput("layout: ignored: features of rows that nobody else holds are left out")
        if cut.features.max() >= len(table.features):
            raise InvalidInput("layout: ignored: points to a feature that this party does not hold")


def _of_intercept_alone(layout: ClientLayout, config: RunConfig) -> bool:
    """Whether only the constant feature is ignored, which every party with labels holds; its pseudonym is the first."""
    has_intercept = config.features is not None and config.features.intercept
    return has_intercept and all(cut.features.tolist() == [0] for cut in layout.ignored)
