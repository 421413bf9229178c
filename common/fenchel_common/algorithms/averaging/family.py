"""The family of the averaging algorithms."""

import math
from typing import Final, Protocol

from fenchel_common.algorithms.averaging.rails import CHECKPOINT_AFTER, LOCAL, MEASURE, MEASURED, SURVEY, Vectors
from fenchel_common.algorithms.family import Carried, Exchange, Family, Messages
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.records import ROUND

LOG_ENTRIES: Final = 4 * CHECKPOINT_AFTER
"""The most entries of the log; it exceeds `CHECKPOINT_AFTER` only while parties fail to restate the state."""


class AveragingChoices(Protocol):
    """The settings that the family reads; `AveragingSettings` has them."""

    @property
    def vectors(self) -> Vectors: ...

    @property
    def width(self) -> int: ...


def _messages(settings: AveragingChoices) -> Messages:
    """The messages; the number of vectors in each depends on the algorithm's vectors."""
    vectors, width = settings.vectors, settings.width
    known = len(vectors.state) + LOG_ENTRIES * len(vectors.summed) + len(vectors.kept)
    state = Carried(by_feature=known, width=width)
    local = Carried(by_sample=1, by_feature=len(vectors.returned) + len(vectors.state), numbers=1, width=width)

    def exchange(task: Carried, result: Carried) -> Exchange:
        return Exchange("AveragingTask", "AveragingResult", task_carries=task, result_carries=result)

    return Messages(
        phases={
            SURVEY: exchange(state, Carried()),
            LOCAL: exchange(state, local),
            MEASURE: exchange(Carried(by_sample=1, width=width), Carried(numbers=1)),
            MEASURED: exchange(Carried(numbers=1, width=width), Carried()),
        },
        preparation=None,
        state="AveragingState",
        state_carries=state,
        choices={ROUND: "AveragingRoundChoices", SURVEY: "AveragingPlan", LOCAL: "AveragingClosing"},
    )


def _ciphertexts(settings: AveragingChoices, layout: ClientLayout) -> int:
    """Each returned vector has `width` values for each feature, in blocks of S."""
    features = sum(map(len, layout.feature_blocks.values()))
    return len(settings.vectors.returned) * math.ceil(features * settings.width / layout.slots)


AVERAGING: Final[Family[AveragingChoices]] = Family(name="averaging", messages=_messages, ciphertexts=_ciphertexts)
