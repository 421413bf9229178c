"""Whether a server that runs HyFDCA at the level `paper` can work rows out of the parties' shares of the model.

It sees X_kᵀα/(λN) of each party in each round. The difference of two is a sum of the rows whose dual variables changed,
and `fenchel audit --attack` finds rows in such sums when

- one row is in it: it is that row;
- fewer rows are in it than the party has features: over the rounds, the spans of such sums meet in single rows. With 15
  features and 1 to 14 changes a round all rows were found, with 15 and more none;
- few rows are in it: with 32 changes the sum is no nearer to its rows than to others (cosine 0.23 against 0.19).

With the hinge losses, a step of the local method `paper` leaves most of the drawn variables where they are, at a bound:
on breast cancer, of 28 drawn in a round 1 changed in the median of the first 100 rounds, of 71 drawn 13.
So there h promises nothing.

h is of the samples that a label holder has, and its draw falls on those of another party as chance will have it: where
that party has 94 of 1034 samples, of 103 drawn in a round exactly 1 was its own in 2 of 300 rounds.
"""

from collections import Counter
from typing import Final

from fenchel_common.algorithms.hyfdca.pace import SMALLEST_FRACTION, HyfdcaChoices, Pace
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout

ENOUGH_CHANGES: Final = 32
"""Changed dual variables from which on a difference looks like no single row."""
RESTING_LOSSES: Final = frozenset({"hinge", "smoothed_hinge"})
"""Losses whose dual variables rest at a bound, exactly, for most samples."""


def row_leak_of(settings: HyfdcaChoices, changes: int | None, width: int) -> str | None:
    """HyFDCA's `row_leak`."""
    if settings.local == "paper" and settings.loss in RESTING_LOSSES:
        return (
            f"with the loss {settings.loss} most of the dual variables that are updated stay as they are, whatever h is"
        )
    if changes is None and isinstance(settings.h, int):
        changes = settings.h
    needed = max(ENOUGH_CHANGES, width)
    if changes is not None and changes < needed:
        return f"as few as {changes} of a party's samples are updated in a round, where {needed} would be enough here"
    return None


def fewest_changes(settings: HyfdcaChoices, layout: FederationLayout) -> int:
    """The fewest samples that are updated in a round among those of a party, where any are; `h = "auto"` at its least.

    A label holder draws without regard to who else holds what it draws. So as many of a round's samples as it holds
    apart from another party can be missing among those of the other.
    """
    common: Counter[tuple[ClientId, ClientId]] = Counter()
    for holders, size in layout.cohort_sizes.items():
        drawing = layout.label_holders.intersection(holders)
        common.update({(client, other): size for client in drawing for other in holders})
    own = {client: size for (client, other), size in common.items() if client == other}
    pace = Pace(SMALLEST_FRACTION)
    return min(
        max(1, pace.samples(settings, own, client) - (own[client] - shared)) for (client, _), shared in common.items()
    )
