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

h counts samples of a label holder, and chance decides how many of them another party holds too: where the other party
holds 94 of 1034 samples, a draw of 103 had exactly 1 of these in 2 of 300 rounds.
"""

from collections import Counter
from typing import Final

from fenchel_common.algorithms.hyfdca.pace import SMALLEST_FRACTION, HyfdcaChoices, Pace
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout
from fenchel_common.losses import loss_named

ENOUGH_CHANGES: Final = 32
"""The number of changed dual variables from which a difference resembles no single row."""


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

    A label holder draws its samples without regard to their other holders. So as many of the drawn samples
    as it holds without some other party can be unknown to that party, and only the rest of the draw updates samples of
    that party.
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
