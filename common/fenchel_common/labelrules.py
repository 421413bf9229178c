"""How a run uses labels: which samples count more, and whether numbers to predict are standardised.

A run of several classes has a problem for each, which tells the class from all others; any other run has one problem.
"""

from dataclasses import dataclass
from typing import Final

from fenchel_common.classlabels import class_codes, one_against_rest
from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import Array
from fenchel_common.losses.weighted import check_weights


@dataclass(frozen=True, slots=True)
class LabelRules:
    """The settings of a run that concern labels, the same at every party.

    Attributes
    ----------
    classes
        The names of several classes; none in a run of one problem.
    positive, negative
        For each problem the weights of the two classes, unless they are `balanced`.
    balanced
        Whether the weights of the classes follow from their sizes in the whole federation.
    sample_weights
        Whether the parties give a weight for each sample.
    largest
        A public bound of the weight of a sample, which is the product of the weights of its class and its own.
    standardise
        Whether numbers to predict get the mean 0 and the standard deviation 1 over the whole federation.
    """

    classes: tuple[str, ...] = ()
    positive: tuple[float, ...] = (1.0,)
    negative: tuple[float, ...] = (1.0,)
    balanced: bool = False
    sample_weights: bool = False
    largest: float = 1.0
    standardise: bool = False

    @property
    def weighted(self) -> bool:
        """Whether samples can have different weights."""
        return self.balanced or self.sample_weights or any(one != 1.0 for one in (*self.positive, *self.negative))

    @property
    def learns(self) -> bool:
        """Whether the parties with labels must learn figures about all labels of the federation."""
        return self.balanced or self.standardise

    @property
    def problems(self) -> int:
        return len(self.positive)

    def labels_of_problems(self, y: Array) -> list[Array]:
        """The labels of each problem, from those of the table."""
        return [one_against_rest(y, code) for code in class_codes(self.classes)] or [y]

    def check_weights(self, weights: Array | None) -> None:
        """Raises `InvalidInput` unless a table has weights if and only if the run uses them."""
        if self.sample_weights and weights is None:
            raise InvalidInput(
                "weights: the run counts samples by weights, and this table has none; name their column in [label] of "
                'shard.toml, as in weight = "COLUMN"'
            )
        if weights is None:
            return
        if not self.sample_weights:
            raise InvalidInput(
                "weights: the table has weights, which this run does not use; leave out `weight` in [label] of "
                "shard.toml, or let the run have sample_weights = true in its [settings], which hyfdca takes"
            )
        check_weights(weights, largest=self.largest)


NO_RULES: Final = LabelRules()
"""Every sample counts once, and labels are used as they are."""
