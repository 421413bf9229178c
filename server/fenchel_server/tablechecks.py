"""Checks that the samples and features of the parties make one table.

An error says to the server's operator what is wrong, and has for each party that can mend it what it is to be told.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from fenchel_common.dismissal import MAX_UNFIT_FEATURES, Misfit, UnfitData
from fenchel_common.errors import AlignmentError
from fenchel_common.layout import by_holders
from fenchel_server.holdings import Cohort, HeldFeatures, Holding, SortedCohorts

_NAMES_SHOWN: Final = 5


def check_linked(holdings: Sequence[Holding], features: HeldFeatures, cohorts: Sequence[Cohort]) -> None:
    """Refuses parties without common samples or features; nearly always they write the same ids differently."""
    alone = {cohort.holders[0] for cohort in cohorts if len(cohort.holders) == 1}
    alone -= {position for cohort in cohorts if len(cohort.holders) > 1 for position in cohort.holders}
    different = {features.without_intercept(position).tobytes() for position in range(len(holdings))}
    if len(alone) == len(holdings) and len(different) > 1:
        raise AlignmentError(
            "no two parties hold a common sample, yet they hold different features: check that all parties write "
            "sample ids in the same way (a horizontal federation needs the same features at every party)",
            unfit=_without_common_samples(holdings, features, alone),
        )
    groups = _joined([set(cohort.holders) for cohort in cohorts] + _parties_by_feature(features))
    if len(groups) > 1:
        sides = " | ".join(_parties(holdings, group) for group in groups)
        raise AlignmentError(
            f"the parties fall into groups without a common sample or feature: {sides}; check that all parties "
            "write sample ids in the same way",
            unfit=_without_common_samples(holdings, features, alone or range(len(holdings))),
        )


def check_no_overlap(holdings: Sequence[Holding], features: HeldFeatures, cohorts: Sequence[Cohort]) -> None:
    """Refuses a feature of a sample that two parties hold."""
    problems = []
    twice_at: dict[int, set[str]] = {}
    together: Counter[tuple[int, int]] = Counter()
    for cohort in cohorts:
        together.update(dict.fromkeys(combinations(cohort.holders, 2), len(cohort.samples)))
    for (first, second), count in sorted(together.items()):
        one, other = holdings[first], holdings[second]
        own, others = (features.without_intercept(position) for position in (first, second))
        if twice := features.named(np.intersect1d(own, others, assume_unique=True)):
            problems.append(
                f"{one.client} and {other.client} both hold {_enumeration(twice)} of the same {count} samples"
            )
            for position in (first, second):
                twice_at.setdefault(position, set()).update(twice)
    if problems:
        raise AlignmentError(
            f"features would be counted twice: {'; '.join(problems)}. Remove them at one party, or set "
            'overlap = "first" to use them from the party that comes first in the roster, or overlap = "sum" if each '
            "value is at one of them and zero at the others; RUN.features.csv in the state folder of each of these "
            "parties tells their names",
            unfit={
                holdings[position].client: UnfitData(Misfit.FEATURES_HELD_TWICE, _some(twice))
                for position, twice in twice_at.items()
            },
        )


def check_all_take_part(holdings: Sequence[Holding], cohorts: SortedCohorts) -> None:
    """Refuses a party of which the run would use no sample."""
    taking_part = {position for cohort in cohorts.used for position in cohort.holders}
    if idle := [position for position in range(len(holdings)) if position not in taking_part]:
        raise AlignmentError(
            f"the run would use no sample of {_parties(holdings, idle)}: {'; '.join(left_out_notes(holdings, cohorts))}"
            ". Check that these parties write sample ids as the others do, give one of their parties the labels, use "
            "another rule for samples, or leave these parties out of the roster",
            unfit={holdings[position].client: UnfitData(Misfit.NO_SAMPLE_USED) for position in idle},
        )


def left_out_notes(holdings: Sequence[Holding], cohorts: SortedCohorts) -> tuple[str, ...]:
    """How many samples are left out, whose they are, and why; for people, without any sample."""
    reasons = {
        "samples are left out because no party with labels holds them": cohorts.unlabelled,
        "samples are left out because their holders do not have all features": cohorts.incomplete,
    }
    notes = []
    for reason, left_out in reasons.items():
        parts = [f"{len(cohort.samples)} held by {_parties(holdings, cohort.holders)}" for cohort in left_out]
        if len(parts) > _NAMES_SHOWN:
            parts[_NAMES_SHOWN:] = [f"and {len(parts) - _NAMES_SHOWN} groups more"]
        if parts:
            notes.append(f"{sum(len(cohort.samples) for cohort in left_out)} {reason} ({'; '.join(parts)})")
    return tuple(notes)


def _without_common_samples(
    holdings: Sequence[Holding], features: HeldFeatures, positions: Iterable[int]
) -> dict[str, UnfitData]:
    """For each of these parties, some of its features that not every party has."""
    everywhere = np.bincount(np.concatenate(features.held)) == len(holdings)
    unfit: dict[str, UnfitData] = {}
    for position in positions:
        own = features.held[position]
        some = features.named(own[~everywhere[own]][:MAX_UNFIT_FEATURES])
        unfit[holdings[position].client] = UnfitData(Misfit.NO_COMMON_SAMPLE, tuple(some))
    return unfit


def _some(features: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(features)[:MAX_UNFIT_FEATURES])


def _parties_by_feature(features: HeldFeatures) -> list[set[int]]:
    """The sets of parties that hold the same feature, but for the constant one."""
    own = [features.without_intercept(party) for party in range(len(features.held))]
    return [set(holders) for holders in by_holders(own, count=len(features.names)) if holders]


def _joined(links: Sequence[set[int]]) -> list[list[int]]:
    """Merges sets that have a member in common until none have."""
    groups: list[set[int]] = []
    for link in links:
        touching = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link] + [link.union(*touching)]
    return sorted(sorted(group) for group in groups)


def _parties(holdings: Sequence[Holding], positions: Sequence[int]) -> str:
    return _enumeration([holdings[position].client for position in positions])


def _enumeration(names: Sequence[str]) -> str:
    shown = list(names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        shown.append(f"{len(names) - _NAMES_SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
