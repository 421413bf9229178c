"""Which message the task and the result of every phase are: nothing crosses the wire that is not listed here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from google.protobuf.message import Message

from fenchel.v1 import alignment_pb2, averaging_pb2, ceremony_pb2, corrective_pb2, hyfdca_pb2, labels_pb2, setup_pb2
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE, SURVEY, AveragingSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import INNER_PRODUCT_AFTER, SYNC
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidInput
from fenchel_common.setup import FINISH, INTRODUCE, KEY_MAKE, KEY_TAKE, LABELS, LAYOUT
from fenchel_common.wire.alignment import phase_name, phase_step


class Family(StrEnum):
    """Algorithms that speak the same messages."""

    HYFDCA = "hyfdca"
    CORRECTIVE = "corrective"
    AVERAGING = "averaging"


@dataclass(frozen=True, slots=True)
class Carried:
    """How many vectors a message carries at most: by sample and by feature, each on all blocks, and of figures."""

    by_sample: int = 0
    by_feature: int = 0
    figures: int = 0


@dataclass(frozen=True, slots=True)
class PhaseMessages:
    """What a phase sends and gets back.

    `inside` names fields of bytes, as Message.field, that hold a message of their own. What the messages carry is said
    of the phases from the layout on; on the averaging rails it depends on the algorithm, and is not said here.
    """

    task: type[Message]
    result: type[Message]
    inside: Mapping[str, type[Message]] = field(default_factory=dict)
    task_carries: Carried = Carried()
    result_carries: Carried = Carried()


FIRST_ALIGNMENT: Final = phase_name(0)
LATER_ALIGNMENT: Final = phase_name(1)
"""Stands for all phases of the alignment after the first."""

SETUP: Final[Mapping[str, PhaseMessages]] = {
    INTRODUCE: PhaseMessages(setup_pb2.RunTerms, setup_pb2.Introduction),
    KEY_MAKE: PhaseMessages(ceremony_pb2.Introductions, setup_pb2.KeyMade),
    KEY_TAKE: PhaseMessages(setup_pb2.KeyTake, setup_pb2.KeyTaken),
    FIRST_ALIGNMENT: PhaseMessages(alignment_pb2.AlignmentOpening, alignment_pb2.AlignmentListing),
    LATER_ALIGNMENT: PhaseMessages(alignment_pb2.AlignmentRelay, alignment_pb2.AlignmentRaised),
}
"""The phases whose messages do not depend on the algorithm."""

_HYFDCA_PRIMAL = PhaseMessages(
    hyfdca_pb2.HyfdcaPrimalTask,
    hyfdca_pb2.HyfdcaPrimalResult,
    task_carries=Carried(by_sample=1, by_feature=1, figures=1),
    result_carries=Carried(by_feature=1),
)
_HYFDCA_PRODUCT = PhaseMessages(
    hyfdca_pb2.HyfdcaProductTask,
    hyfdca_pb2.HyfdcaProductResult,
    task_carries=Carried(by_sample=1, by_feature=1),
    result_carries=Carried(by_sample=1),
)
_HYFDCA_DUAL = PhaseMessages(
    hyfdca_pb2.HyfdcaDualTask,
    hyfdca_pb2.HyfdcaDualResult,
    task_carries=Carried(by_sample=3, by_feature=1),
    result_carries=Carried(by_sample=1, figures=1),
)
_CORRECTIVE_PRODUCT = PhaseMessages(
    corrective_pb2.CorrectiveProductTask,
    corrective_pb2.CorrectiveProductResult,
    task_carries=Carried(by_sample=1, by_feature=4, figures=1),
    result_carries=Carried(by_sample=2, figures=1),
)
_CORRECTIVE_DUAL = PhaseMessages(
    corrective_pb2.CorrectiveDualTask,
    corrective_pb2.CorrectiveDualResult,
    task_carries=Carried(by_sample=4, by_feature=4, figures=2),
    result_carries=Carried(by_sample=2, by_feature=1, figures=1),
)
_CORRECTIVE_PRIMAL = PhaseMessages(
    corrective_pb2.CorrectivePrimalTask,
    corrective_pb2.CorrectivePrimalResult,
    task_carries=Carried(by_sample=1, figures=1),
    result_carries=Carried(by_feature=3, figures=1),
)
_AVERAGING = PhaseMessages(averaging_pb2.AveragingTask, averaging_pb2.AveragingResult)


def _ends(*, opening: type[Message] | None, state: type[Message], carries: Carried) -> dict[str, PhaseMessages]:
    """The phases from the layout to the first round, and the last phase of the run.

    `opening` is the algorithm's first message, `state` what a party makes its model of, and `carries` what is in that.
    """
    openings = {} if opening is None else {"LayoutResult.opening": opening}
    answered = Carried(by_sample=1 + len(openings))
    inside = {"ModelPart.state": state}
    return {
        LAYOUT: PhaseMessages(alignment_pb2.ClientLayout, labels_pb2.LayoutResult, openings, result_carries=answered),
        LABELS: PhaseMessages(labels_pb2.LabelSums, labels_pb2.LabelsCompared, task_carries=Carried(by_sample=1)),
        FINISH: PhaseMessages(setup_pb2.ModelPart, setup_pb2.ModelRelease, inside, task_carries=carries),
    }


ROUNDS: Final[Mapping[Family, Mapping[str, PhaseMessages]]] = {
    Family.HYFDCA: {
        SYNC: _HYFDCA_PRIMAL,
        INNER_PRODUCT: _HYFDCA_PRODUCT,
        LOCAL_DUAL: _HYFDCA_DUAL,
        PRIMAL: _HYFDCA_PRIMAL,
        INNER_PRODUCT_AFTER: _HYFDCA_PRODUCT,
        **_ends(
            opening=hyfdca_pb2.HyfdcaProductResult,
            state=hyfdca_pb2.HyfdcaState,
            carries=Carried(by_sample=1, by_feature=1),
        ),
    },
    Family.CORRECTIVE: {
        INNER_PRODUCT: _CORRECTIVE_PRODUCT,
        LOCAL_DUAL: _CORRECTIVE_DUAL,
        PRIMAL: _CORRECTIVE_PRIMAL,
        **_ends(
            opening=hyfdca_pb2.HyfdcaProductResult,
            state=corrective_pb2.CorrectiveModel,
            carries=Carried(by_feature=1),
        ),
    },
    Family.AVERAGING: {
        SURVEY: _AVERAGING,
        LOCAL: _AVERAGING,
        MEASURE: _AVERAGING,
        **_ends(opening=None, state=averaging_pb2.AveragingState, carries=Carried()),
    },
}


def family_of(settings: AlgorithmSettings) -> Family:
    """Whose messages a run with these settings speaks."""
    if isinstance(settings, AveragingSettings):
        return Family.AVERAGING
    if isinstance(settings, HyfdcaSettings):
        return Family.CORRECTIVE if settings.local == "corrective" else Family.HYFDCA
    raise InvalidInput(f"settings: {type(settings).__name__} belongs to no family of messages")


def messages_of(phase: str, settings: AlgorithmSettings | None) -> PhaseMessages:
    """The messages of a phase; before the layout they are the same whatever the run's settings are."""
    if phase in SETUP:
        return SETUP[phase]
    held = {} if settings is None else ROUNDS[family_of(settings)]
    if phase in held:
        return held[phase]
    phase_step(phase)
    return SETUP[LATER_ALIGNMENT]
