"""Whether a run may begin, once the server knows who holds which samples and features; and warnings for people."""

from typing import Final

from fenchel_common.algorithms.fitting import check_partition
from fenchel_common.algorithms.row_leak import check_row_leak, row_leak, row_leak_warning
from fenchel_common.layout import FederationLayout
from fenchel_common.release import balanced_gap
from fenchel_common.runconfig import RunConfig

SMALL_COHORT: Final = 5
"""A cohort of fewer samples causes a warning: a sum over so few samples tells much about each of them."""
SHOWN: Final = 5


def check_preconditions(config: RunConfig, layout: FederationLayout) -> tuple[str, ...]:
    """Raises `InvalidConfig` if the run must not begin; otherwise gives the warnings, for people to read.

    A run is refused if its algorithm does not support this partition of the table, or if rows can leak to the server
    and nobody has acknowledged it. Warnings name parties and counts, never a sample.
    """
    check_partition(config.algorithm, layout.partition)
    settings = config.algorithm_settings()
    changes = settings.family.fewest_changes(settings, layout)
    width = max(map(len, layout.client_features.values()))
    check_row_leak(settings, acknowledged=config.acknowledge_row_leak, changes=changes, width=width)
    reason = row_leak(settings, changes=changes, width=width)
    leaks = [] if reason is None else [row_leak_warning(reason)]
    return (*leaks, *coarse_gap(config, layout), *small_cohorts(layout))


def coarse_gap(config: RunConfig, layout: FederationLayout) -> tuple[str, ...]:
    """A warning if most of the noise on a released model is due to the gap at which the run stops."""
    noise = config.release_noise(layout.sample_count)
    if noise is None:
        return ()
    settings = config.algorithm_settings()
    fitting = balanced_gap(settings, samples=layout.sample_count, row_bound=noise.row_bound)
    if noise.gap <= fitting:
        return ()
    warning = (
        f"more than half of the noise on the released model is due to stop.gap = {noise.gap:g}; "
        f"at {fitting:.2g} it would be half; set that or less for less noise"
    )
    return (warning,)


def small_cohorts(layout: FederationLayout) -> tuple[str, ...]:
    """One warning about all cohorts of very few samples: how many there are, and who holds them."""
    sizes = layout.cohort_sizes
    small = {holders: size for holders, size in sizes.items() if size < SMALL_COHORT}
    if not small:
        return ()
    parts = [f"{size} held by {' and '.join(holders)}" for holders, size in small.items()]
    if len(parts) > SHOWN:
        parts[SHOWN:] = [f"{len(parts) - SHOWN} groups more"]
    warning = (
        f"{len(small)} of {len(sizes)} groups of samples with the same holders have fewer than {SMALL_COHORT} samples "
        f"({'; '.join(parts)}): a sum over such a group tells much about each of its samples"
    )
    return (warning,)
