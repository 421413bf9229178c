"""The family of corrective HyFDCA while some of the parties take part."""

from typing import Final

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PREPARATION, PRIMAL, DualSettings
from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages
from fenchel_common.algorithms.partial.progress import CATCH_UP, MAX_BATCH, MAX_OPEN, REMEMBERED
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.records import ROUND

MOST_PAIRS: Final = 2 * (MAX_OPEN + REMEMBERED)
"""More pairs than a party takes part in at once. One that was away for long gets more than a task can have in several
rounds."""
NUMBER_CIPHERTEXTS: Final = 9
"""Ciphertexts of a party's vectors of numbers in a round."""

FACTS: Final = Carried(by_sample=4 * MOST_PAIRS, by_feature=2 * MOST_PAIRS, numbers=2 * MOST_PAIRS)

MESSAGES: Final = Messages(
    phases={
        CATCH_UP: Exchange(
            "PartialTask",
            "PartialCatchUpResult",
            task_carries=FACTS,
            result_carries=Carried(by_feature=2 * MAX_OPEN),
        ),
        INNER_PRODUCT: Exchange(
            "PartialTask",
            "PartialProductResult",
            task_carries=FACTS,
            result_carries=Carried(by_sample=2 + 2 * MOST_PAIRS, numbers=1),
        ),
        LOCAL_DUAL: Exchange(
            "PartialDualTask",
            "PartialDualResult",
            task_carries=FACTS,
            result_carries=Carried(by_sample=2, numbers=1),
        ),
        PRIMAL: Exchange(
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
        INNER_PRODUCT: "PartialProductChoices",
        PRIMAL: "PartialPrimalChoices",
    },
)


def _messages(_settings: DualSettings) -> Messages:
    return MESSAGES


def _ciphertexts(settings: DualSettings, layout: ClientLayout) -> int:
    """Of a pair of points: products and new dual variables by sample, models by feature, and of the released model."""
    solved = len(layout.block_ids) if layout.party in layout.label_holders else 0
    by_sample = 2 * int(layout.shared.sum()) + solved + len(layout.reports)
    by_feature = 3 * len(layout.feature_blocks)
    return by_sample + settings.privacy.encrypts_features * (by_feature + NUMBER_CIPHERTEXTS) * MAX_BATCH // 2


def _row_leak(_settings: DualSettings, _changes: int | None, _width: int) -> str:
    return "corrective steps show it sums of rows, and from round to round single rows enter and leave these sums"


PARTIAL: Final[Family[DualSettings]] = Family(
    name="partial",
    messages=_messages,
    ciphertexts=_ciphertexts,
    row_leak=_row_leak,
)
