"""What the server says before a run starts, once it knows who holds what: which settings and sizes give much away."""

from typing import Final

from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.algorithms.row_leak import check_row_leak, row_leak, row_leak_warning
from fenchel_common.layout import FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_server.algorithms.pace import Pace

SMALL_COHORT: Final = 5
"""Fewer samples with the same holders than this are worth a warning: they are nearly known by being that few."""
SHOWN: Final = 5


def warnings_of(config: RunConfig, layout: FederationLayout) -> tuple[str, ...]:
    """For people to read; parties and counts, never a sample. Refuses a run that leaks rows unacknowledged."""
    settings, changes = config.algorithm_settings(), fewest_changes(config, layout)
    width = max(len(held) for held in layout.client_features.values())
    check_row_leak(settings, acknowledged=config.acknowledge_row_leak, changes=changes, width=width)
    reason = row_leak(settings, changes=changes, width=width)
    leaks = [] if reason is None else [row_leak_warning(reason)]
    return (*leaks, *small_cohorts(layout))


def fewest_changes(config: RunConfig, layout: FederationLayout) -> int | None:
    """The fewest samples that are updated in a round among those of a party; `h = "auto"` counts as it starts."""
    settings = config.algorithm_settings()
    if not isinstance(settings, HyfdcaSettings) or settings.local == "corrective":
        return None
    rows = {client: sum(layout.blocks[block].size for block in layout.blocks_of(client)) for client in layout.clients}
    held = {client: rows[client] for client in layout.clients if client in layout.label_holders}
    drawn = min(Pace().samples(settings, held, client) for client in held)
    return min(drawn, *rows.values())


def small_cohorts(layout: FederationLayout) -> tuple[str, ...]:
    """One warning about all cohorts of very few samples, with how many there are and who holds them."""
    sizes: dict[tuple[str, ...], int] = {}
    for block in layout.blocks:
        sizes[block.holders] = sizes.get(block.holders, 0) + block.size
    small = {holders: size for holders, size in sizes.items() if size < SMALL_COHORT}
    if not small:
        return ()
    parts = [f"{size} held by {' and '.join(holders)}" for holders, size in small.items()]
    if len(parts) > SHOWN:
        parts[SHOWN:] = [f"{len(parts) - SHOWN} groups more"]
    warning = (
        f"{len(small)} of {len(sizes)} groups of samples with the same holders have fewer than {SMALL_COHORT} samples "
        f"({'; '.join(parts)}): what is told of such a group is told of nearly each of them"
    )
    return (warning,)
