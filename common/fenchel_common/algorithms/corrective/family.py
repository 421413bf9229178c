"""The family of corrective HyFDCA."""

from dataclasses import replace
from typing import Final

from fenchel_common.algorithms.corrective.pairs import MESSAGES as OF_PAIRS
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, MEASURED, PREPARATION, PRIMAL, DualSettings
from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.records import ROUND

NUMBER_CIPHERTEXTS: Final = 9
"""Ciphertexts of a party's vectors of numbers in a round, with the hinge loss and a full memory."""

CLASS_TASKS: Final = "CorrectiveClassTasks"
CLASS_RESULTS: Final = "CorrectiveClassResults"
TASKS_FIELD: Final = f"{CLASS_TASKS}.tasks"
RESULTS_FIELD: Final = f"{CLASS_RESULTS}.results"

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
            result_carries=Carried(by_feature=3, numbers=2),
        ),
        MEASURED: Exchange(
            "CorrectiveMeasuredTask",
            "CorrectiveMeasuredResult",
            task_carries=Carried(numbers=1),
            result_carries=Carried(),
        ),
    },
    preparation=PREPARATION,
    state="CorrectiveModel",
    state_carries=Carried(by_feature=1),
    choices={
        ROUND: "CorrectiveRoundChoices",
        PRIMAL: "CorrectivePrimalChoices",
        MEASURED: "CorrectiveMeasuredChoices",
    },
)

WITH_PAIRS: Final = replace(
    MESSAGES,
    phases={**OF_PAIRS.phases, **MESSAGES.phases},
    choices={**OF_PAIRS.choices, **MESSAGES.choices},
)
"""Of a run that may go on with rounds of pairs (docs/partial.md)."""


def _messages(settings: DualSettings) -> Messages:
    """In a run of several classes, each message has the messages of all problems."""
    count = len(settings.classes)
    if not count:
        return WITH_PAIRS
    return replace(
        MESSAGES,
        phases={phase: _of_classes(exchange, count) for phase, exchange in MESSAGES.phases.items()},
        state=CLASS_TASKS,
        state_inside={TASKS_FIELD: MESSAGES.state},
        state_carries=replace(MESSAGES.state_carries, width=count),
        choices={ROUND: "CorrectiveClassRoundChoices", PRIMAL: "CorrectiveClassPrimalChoices"},
    )


def _of_classes(exchange: Exchange, count: int) -> Exchange:
    return Exchange(
        CLASS_TASKS,
        CLASS_RESULTS,
        task_carries=exchange.task_carries.times(count),
        result_carries=exchange.result_carries.times(count),
        inside={TASKS_FIELD: exchange.task, RESULTS_FIELD: exchange.result},
    )


def _ciphertexts(settings: DualSettings, layout: ClientLayout) -> int:
    """By sample: products of two models, new point, told vertex, reported α. By feature: new and reported models."""
    solved = len(layout.block_ids) if layout.party in layout.label_holders else 0
    by_sample = 2 * int(layout.shared.sum()) + solved + len(layout.told_blocks) + len(layout.reports)
    by_feature = 2 * len(layout.feature_blocks) + 2 * len(layout.first_holder_of(layout.clients))
    of_one = by_sample + settings.privacy.encrypts_features * (by_feature + NUMBER_CIPHERTEXTS)
    return max(1, len(settings.classes)) * of_one


def _row_leak(_settings: DualSettings, _changes: int | None, _width: int) -> str:
    return "corrective steps show it sums of rows, and from round to round single rows enter and leave these sums"


CORRECTIVE: Final[Family[DualSettings]] = Family(
    name="corrective",
    messages=_messages,
    ciphertexts=_ciphertexts,
    row_leak=_row_leak,
    bounds_model=True,
)
