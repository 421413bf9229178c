"""The family of corrective HyFDCA."""

from typing import Final

from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PREPARATION, PRIMAL
from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.records import ROUND

NUMBER_CIPHERTEXTS: Final = 9
"""Ciphertexts of a party's vectors of numbers in a round, with the hinge loss and a full memory."""

MESSAGES: Final = Messages(
    phases={
        INNER_PRODUCT: Exchange(
            "CorrectiveProductTask",
            "CorrectiveProductResult",
            task_carries=Carried(by_sample=1, by_feature=4, numbers=1),
            result_carries=Carried(by_sample=2, numbers=1),
        ),
        LOCAL_DUAL: Exchange(
            "CorrectiveDualTask",
            "CorrectiveDualResult",
            task_carries=Carried(by_sample=4, by_feature=4, numbers=2),
            result_carries=Carried(by_sample=3, by_feature=1, numbers=1),
        ),
        PRIMAL: Exchange(
            "CorrectivePrimalTask",
            "CorrectivePrimalResult",
            task_carries=Carried(by_sample=2, numbers=1),
            result_carries=Carried(by_feature=3, numbers=1),
        ),
    },
    preparation=PREPARATION,
    state="CorrectiveModel",
    state_carries=Carried(by_feature=1),
    choices={ROUND: "CorrectiveRoundChoices", PRIMAL: "CorrectivePrimalChoices"},
)


def _ciphertexts(settings: AlgorithmSettings, layout: ClientLayout) -> int:
    """By sample: products of two models, new point, told vertex, reported α. By feature: new and reported models."""
    solved = len(layout.block_ids) if layout.party in layout.label_holders else 0
    by_sample = 2 * int(layout.shared.sum()) + solved + len(layout.told_blocks) + len(layout.reports)
    by_feature = 2 * len(layout.feature_blocks) + 2 * len(layout.first_holder_of(layout.clients))
    return by_sample + settings.privacy.encrypts_features * (by_feature + NUMBER_CIPHERTEXTS)


def _row_leak(_settings: AlgorithmSettings, _changes: int | None, _width: int) -> str:
    return "corrective steps show it sums of rows, and from round to round single rows enter and leave these sums"


CORRECTIVE: Final[Family[AlgorithmSettings]] = Family(
    name="corrective",
    messages=lambda _: MESSAGES,
    ciphertexts=_ciphertexts,
    row_leak=_row_leak,
    bounds_model=True,
)
