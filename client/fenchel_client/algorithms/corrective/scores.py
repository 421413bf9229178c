"""How well the final model predicts: a party's sums over the samples that it reports on, and the opened totals.

In a run of several classes the problem that is last under way has two sums more: of how many samples the party knows
the scores of all classes, and of how many the class with the largest score is right.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.points import Entry
from fenchel_client.algorithms.corrective.scales import row_lengths
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.corrective.messages import SCORES_FIELD
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss
from fenchel_common.losses.held_out import held_out
from fenchel_common.scoresums import UNIT, ScoreFigures, ScoreSums, exact_figures
from fenchel_common.selection import LEAST_HELD_OUT

Array = NDArray[np.float64]

CLASS_SUMS: Final = 2
ARITHMETIC: Final = 2.0**-40
"""Beside 1 and the score itself, more than the errors of double precision in a score."""


@dataclass(frozen=True, slots=True)
class RoundScores:
    """What a party keeps between `primal` and `measured`.

    Attributes
    ----------
    vector
        Its sums, as it sends them.
    of_classes
        Whether the two sums of all classes are among them.
    own
        The figures of its own samples; None without labels. They never leave the party.
    """

    sums: ScoreSums
    vector: Vector
    of_classes: bool
    own: ScoreFigures | None

    @classmethod
    def of(
        cls,
        rows: PartyRows,
        codec: RowCodec,
        best: Entry,
        book: CorrectiveBook,
        *,
        least_in_class: int,
        norms: Array,
        loss: Loss,
        right: tuple[int, int] | None = None,
    ) -> "RoundScores":
        """The sums of the best model in a round of all parties.

        Parameters
        ----------
        least_in_class
            The number of samples of the federation in the smaller class.
        norms
            ‖x_i‖² of the whole rows.
        right
            In the problem that is last under way, the two sums of all classes.
        """
        plan, path = book.required_plan(), book.settings.path
        reports = rows.positions_of(plan.report_blocks)
        if plan.leg.fold is not None and path is not None:
            least_in_class = path.least_held_out(least_in_class)
            reports = reports[held_out(rows.labels()[reports])] if len(reports) else reports
        sums = ScoreSums.of(loss, samples=rows.sample_count, least_in_class=least_in_class)
        added = np.zeros(sums.length)
        if len(reports):
            off = _errors(rows, best, book, norms)
            added = sums.sums(best.predictions[reports], rows.labels()[reports], off=off[reports])
        if right is not None:
            added = np.append(added, np.array(right) / UNIT)
        vector = codec.to_numbers(SCORES_FIELD, added, contributors=plan.participants)
        own = None if rows.y is None else exact_figures(loss, best.predictions, rows.y)
        return cls(sums, vector, right is not None, own)

    def figures(self, codec: RowCodec, totals: Vector, book: CorrectiveBook) -> ScoreFigures:
        """The figures of all samples, from the totals of all parties' sums."""
        opened = codec.from_numbers(totals, book.of_all(book.scored, SCORES_FIELD))
        of_classes = opened[len(opened) - CLASS_SUMS * self.of_classes :]
        found = self.sums.figures(opened[: len(opened) - len(of_classes)])
        plan = book.required_plan()
        if plan.leg.fold is None and found.samples != plan.live_samples:
            raise InvalidInput("scores: the parties measured another number of samples than there are")
        if plan.leg.fold is not None and not LEAST_HELD_OUT <= found.samples < plan.live_samples:
            raise InvalidInput(f"scores: a fold must have at least {LEAST_HELD_OUT} samples; use fewer folds")
        if not self.of_classes:
            return found
        known, correct = np.round(of_classes * UNIT).tolist()
        if not 0 <= correct <= known <= found.samples:
            raise InvalidInput("scores: the numbers of samples of all classes are impossible; a party has altered them")
        # A party that has restarted does not know the scores of a class that had reached the gap before.
        return replace(found, classes_accuracy=correct / known if known == found.samples else None)


def _errors(rows: PartyRows, best: Entry, book: CorrectiveBook, norms: Array) -> Array:
    """(n,) bounds on the distance of a party's scores from x_i·w of the model on record.

    Every holder rounds its part of a score, and every weight is rounded when the model is put on record.
    """
    holders = np.ones(rows.count)
    for block in rows.shared:
        holders[rows.positions[block]] = len(book.layout.holders[block])
    unit, lengths = PRODUCT_FORMAT.error_bound(1), row_lengths(norms)
    weights = lengths * (math.sqrt(book.layout.feature_count) * unit)
    return holders * (unit + best.error * lengths) + weights + ARITHMETIC * (1.0 + np.abs(best.predictions))
