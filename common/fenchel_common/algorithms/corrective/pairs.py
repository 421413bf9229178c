"""Rounds of pairs of points, for parties that come and go (docs/partial.md): their phases, bounds and messages.

Runs of some of the parties have such rounds from the first on, runs of all parties once parties have come and gone.
"""

from typing import Final

from fenchel_common.algorithms.dual import PREPARATION
from fenchel_common.algorithms.family import Carried, Exchange, Messages
from fenchel_common.records import ROUND

CATCH_UP: Final = "catch_up"
"""The first phase of a round in which a party owes shares of earlier pairs."""
PAIR_PRODUCTS: Final = "pair_products"
PAIR_DUALS: Final = "pair_duals"
PAIR_PRIMAL: Final = "pair_primal"
"""The phases after it, of every round."""
MAX_OPEN: Final = 32
"""The most pairs that are not complete; the oldest one is given up when there are more."""
MAX_BATCH: Final = 8
"""The most pairs that are solved together."""
REMEMBERED: Final = 40
"""The parties remember the points of so many solved pairs."""
MOST_PAIRS: Final = 2 * (MAX_OPEN + REMEMBERED)
"""More pairs than a party takes part in at once. One that was away for long gets more than a task can have in several
rounds."""

FACTS: Final = Carried(by_sample=4 * MOST_PAIRS, by_feature=2 * MOST_PAIRS, numbers=2 * MOST_PAIRS)

MESSAGES: Final = Messages(
    phases={
        CATCH_UP: Exchange(
            "PartialTask",
            "PartialCatchUpResult",
            task_carries=FACTS,
            result_carries=Carried(by_feature=2 * MAX_OPEN),
        ),
        PAIR_PRODUCTS: Exchange(
            "PartialTask",
            "PartialProductResult",
            task_carries=FACTS,
            result_carries=Carried(by_sample=2 + 2 * MOST_PAIRS, numbers=1),
        ),
        PAIR_DUALS: Exchange(
            "PartialDualTask",
            "PartialDualResult",
            task_carries=FACTS,
            result_carries=Carried(by_sample=2, numbers=1),
        ),
        PAIR_PRIMAL: Exchange(
            "PartialPrimalTask",
            "PartialPrimalResult",
            task_carries=Carried(by_sample=2, numbers=1),
            result_carries=Carried(by_feature=3, numbers=1),
        ),
    },
    preparation=PREPARATION,
    state="CorrectiveModel",
    state_carries=Carried(by_feature=1),
    choices={
        ROUND: "PartialRoundChoices",
        PAIR_PRODUCTS: "PartialProductChoices",
        PAIR_PRIMAL: "PartialPrimalChoices",
    },
)
