"""What the server says before a run starts, once it knows who holds what: which settings and sizes give much away."""

from collections import Counter
from typing import Final

from fenchel_common.algorithms.hyfdca.row_leak import check_row_leak, row_leak, row_leak_warning
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.release import balanced_gap
from fenchel_common.runconfig import RunConfig
from fenchel_server.algorithms.hyfdca.pace import SMALLEST_SHARE, Pace

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
    return (*leaks, *coarse_gap(config, layout), *small_cohorts(layout))


def fewest_changes(config: RunConfig, layout: FederationLayout) -> int | None:
    """The fewest samples that are updated in a round among those of a party, where any are; `h = "auto"` at its least.

    A label holder draws without regard to who else holds what it draws. So as many of a round's samples as it holds
    apart from another party can be missing among those of the other.
    """
    settings = config.algorithm_settings()
    if not isinstance(settings, HyfdcaSettings) or settings.local == "corrective":
        return None
    common: Counter[tuple[ClientId, ClientId]] = Counter()
    for holders, size in cohort_sizes(layout).items():
        drawing = layout.label_holders.intersection(holders)
        common.update({(client, other): size for client in drawing for other in holders})
    held = {client: size for (client, other), size in common.items() if client == other}
    pace = Pace(SMALLEST_SHARE)
    return min(
        max(1, pace.samples(settings, held, client) - (held[client] - shared)) for (client, _), shared in common.items()
    )


def coarse_gap(config: RunConfig, layout: FederationLayout) -> tuple[str, ...]:
    """A warning if most of the noise on a released model is due to the gap that the run may stop at."""
    noise = config.release_noise(layout.sample_count)
    if noise is None:
        return ()
    settings = config.algorithm_settings()
    fitting = balanced_gap(settings, samples=layout.sample_count, row_bound=noise.row_bound)
    if noise.gap <= fitting:
        return ()
    warning = (
        f"stop.gap = {noise.gap:g} makes for more of the noise on the released model than the data do; "
        f"at {fitting:.2g} it would make for half of it"
    )
    return (warning,)


def cohort_sizes(layout: FederationLayout) -> Counter[tuple[ClientId, ...]]:
    """How many samples have exactly these holders."""
    sizes: Counter[tuple[ClientId, ...]] = Counter()
    for block in layout.blocks:
        sizes[block.holders] += block.size
    return sizes


def small_cohorts(layout: FederationLayout) -> tuple[str, ...]:
    """One warning about all cohorts of very few samples, with how many there are and who holds them."""
    sizes = cohort_sizes(layout)
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
