"""The row leak of HyFDCA at the level `paper`: rows that the server finds in the parties' contributions to the model.

The server sees X_kᵀα/(λN) of each party in each round. The difference of two rounds is a sum of the rows whose dual
variables changed, and `fenchel audit --attack` finds rows in such sums in three cases:

- The sum has one row: it is that row.
- The sum has fewer rows than the party has features: over the rounds, the spans of such sums meet in single rows. With
  15 features and 1 to 14 changes a round all rows were found, with 15 and more none.
- The sum has few rows. With 32 changes the sum is no nearer to its rows than to others (cosine 0.23 against 0.19).

With the hinge losses, and others whose dual variables can rest (`Loss.rests`), a step with `local = "paper"` leaves
most of the drawn dual variables unchanged, at a bound. On breast cancer with the hinge, in the median of the first 100
rounds, 1 of 28 drawn variables changed, and 13 of 71. So a large h is no protection there.

A label holder draws the same share of each cohort, rounded up or down at random. So another party that holds few of
its samples can find few of them changed, however large h is.
"""

from collections import Counter
from math import floor
from typing import Final

from fenchel_common.algorithms.hyfdca.pace import SMALLEST_FRACTION, HyfdcaChoices, Pace
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.losses import loss_named

ENOUGH_CHANGES: Final = 32
"""The number of changed dual variables from which a difference resembles no single row."""

WHOLE: Final = 1e-9
"""A share of a cohort that is short of a whole number by less is that number."""


def row_leak_of(settings: HyfdcaChoices, changes: int | None, width: int) -> str | None:
    """The `Family.row_leak` of HyFDCA."""
    if settings.local == "paper" and loss_named(settings.loss).rests:
        return f"with the loss {settings.loss} most of the updated dual variables stay unchanged, for every h"
    if changes is None and isinstance(settings.h, int):
        changes = settings.h
    needed = max(ENOUGH_CHANGES, width)
    if changes is not None and changes < needed:
        return f"as few as {changes} of a party's samples are updated in a round, where {needed} would be enough here"
    return None


def fewest_changes(settings: HyfdcaChoices, layout: FederationLayout) -> int:
    """The least number of a party's samples that a round updates, if it updates any; `h = "auto"` counts at its least.

    A label holder draws at least the whole part of its share of each cohort. The party finds changed what label holders
    draw from the cohorts to which it belongs; the least is what one label holder alone draws.
    """
    cohorts = layout.cohort_sizes
    own = {client: layout.samples_of(client) for client in layout.clients if client in layout.label_holders}
    pace = Pace(SMALLEST_FRACTION)
    fewest: Counter[tuple[ClientId, ClientId]] = Counter()
    for client, count in own.items():
        share = pace.samples(settings, own, client) / count
        for holders, size in cohorts.items():
            if client in holders:
                fewest.update({(client, other): floor(share * size + WHOLE) for other in holders})
    return max(1, min(fewest.values()))
