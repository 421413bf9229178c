"""The message of the task and of the result of every phase. No other message crosses the wire.

The phases of the set-up are listed in this module; the family of the run's algorithm lists those of a round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import Message

from fenchel.v1 import (
    alignment_pb2,
    averaging_pb2,
    ceremony_pb2,
    corrective_pb2,
    hyfdca_pb2,
    labels_pb2,
    partial_pb2,
    records_pb2,
    scoring_pb2,
    setup_pb2,
)
from fenchel_common.algorithms.family import Carried, Messages
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.moments import MOMENT_FIELDS
from fenchel_common.ranges import MOST_COUNTS
from fenchel_common.setup import (
    FINISH,
    GROUP_KEYS,
    INTRODUCE,
    KEY_MAKE,
    KEY_TAKE,
    LABELS,
    LAYOUT,
    NAMES,
    PREPARE,
    ROWS,
    SEARCH,
    VOCABULARY,
)
from fenchel_common.wire.alignment import phase_name, phase_step
from fenchel_common.wire.counting import choices_in
from fenchel_common.wire.pieces import blinding_phase, is_blinding_phase

NOTHING: Final = Carried()


@dataclass(frozen=True, slots=True)
class PhaseMessages:
    """The messages of a phase.

    `inside` names fields of bytes, as Message.field, whose bytes are a message themselves. `task_carries` and
    `result_carries` are set for the phases from the layout on.
    """

    task: type[Message]
    result: type[Message]
    inside: Mapping[str, type[Message]] = field(default_factory=dict)
    task_carries: Carried = NOTHING
    result_carries: Carried = NOTHING


FIRST_ALIGNMENT: Final = phase_name(0)
LATER_ALIGNMENT: Final = phase_name(1)
"""This name stands for all phases of the ring after the first."""
BLINDING: Final = blinding_phase(1)
"""This name stands for all phases in which blinding parties work on lists."""

SETUP: Final[Mapping[str, PhaseMessages]] = {
    INTRODUCE: PhaseMessages(setup_pb2.RunTerms, setup_pb2.Introduction),
    KEY_MAKE: PhaseMessages(ceremony_pb2.Introductions, setup_pb2.KeyMade),
    KEY_TAKE: PhaseMessages(setup_pb2.KeyTake, setup_pb2.KeyTaken),
    VOCABULARY: PhaseMessages(alignment_pb2.VocabularyAsked, alignment_pb2.VocabularyGiven),
    FIRST_ALIGNMENT: PhaseMessages(alignment_pb2.AlignmentStart, alignment_pb2.AlignmentListing),
    LATER_ALIGNMENT: PhaseMessages(alignment_pb2.AlignmentRelay, alignment_pb2.AlignmentRaised),
    BLINDING: PhaseMessages(alignment_pb2.AlignmentWork, alignment_pb2.AlignmentWorked),
    NAMES: PhaseMessages(alignment_pb2.FeatureNames, alignment_pb2.NamesRead),
}
"""The phases whose messages do not depend on the algorithm."""

_KINDS: Final[Mapping[str, type[Message]]] = {
    name: getattr(module, name)
    for module in (averaging_pb2, corrective_pb2, hyfdca_pb2, partial_pb2, scoring_pb2)
    for name in module.DESCRIPTOR.message_types_by_name
}
"""The messages of all families, by their names."""


def phases_of(settings: AlgorithmSettings) -> dict[str, PhaseMessages]:
    """The messages of every phase of a run from the layout on."""
    messages: Messages = settings.family.messages(settings)
    rounds = {
        phase: PhaseMessages(
            records_pb2.RoundTask,
            records_pb2.RoundResult,
            {
                "RoundTask.body": _KINDS[exchange.task],
                "RoundResult.body": _KINDS[exchange.result],
                **_inside(exchange.inside),
                **_choices(messages),
            },
            task_carries=exchange.task_carries,
            result_carries=exchange.result_carries,
        )
        for phase, exchange in messages.phases.items()
    }
    return {**rounds, **_ends(messages)}


def _ends(messages: Messages) -> dict[str, PhaseMessages]:
    """The phases from the layout to the first round, and the last phase of the run."""
    preparation = {} if messages.preparation is None else {"LayoutResult.preparation": _KINDS[messages.preparation]}
    layout: dict[str, type[Message]] = {"RoundResult.body": labels_pb2.LayoutResult, **preparation}
    prepared = Carried(by_sample=2 + len(preparation), by_feature=MOMENT_FIELDS + MOST_COUNTS, numbers=1)
    search = PhaseMessages(
        labels_pb2.CountSums,
        records_pb2.RoundResult,
        layout,
        task_carries=Carried(by_feature=MOST_COUNTS),
        result_carries=prepared,
    )
    state: dict[str, type[Message]] = {
        "ModelPart.state": records_pb2.RoundTask,
        "RoundTask.body": _KINDS[messages.state],
        **_inside(messages.state_inside),
        **_choices(messages),
    }
    return {
        GROUP_KEYS: PhaseMessages(alignment_pb2.ClientLayout, alignment_pb2.GroupKeys),
        LAYOUT: PhaseMessages(
            alignment_pb2.ClientLayout,
            records_pb2.RoundResult,
            layout,
            result_carries=prepared,
        ),
        PREPARE: PhaseMessages(
            labels_pb2.MomentSums,
            records_pb2.RoundResult,
            layout,
            task_carries=Carried(by_feature=MOMENT_FIELDS, numbers=1),
            result_carries=prepared,
        ),
        **dict.fromkeys(SEARCH, search),
        ROWS: PhaseMessages(
            labels_pb2.LengthSums,
            records_pb2.RoundResult,
            layout,
            task_carries=Carried(by_sample=1),
            result_carries=prepared,
        ),
        LABELS: PhaseMessages(labels_pb2.LabelSums, labels_pb2.LabelsCompared, task_carries=Carried(by_sample=1)),
        FINISH: PhaseMessages(
            setup_pb2.ModelPart,
            setup_pb2.ModelRelease,
            state,
            task_carries=messages.state_carries,
            result_carries=Carried(width=messages.state_carries.width),
        ),
    }


def _inside(names: Mapping[str, str]) -> dict[str, type[Message]]:
    return {field_name: _KINDS[name] for field_name, name in names.items()}


def _choices(messages: Messages) -> dict[str, type[Message]]:
    return {choices_in(phase): _KINDS[name] for phase, name in messages.choices.items()}


def messages_of(phase: str, settings: AlgorithmSettings | None) -> PhaseMessages:
    """The messages of a phase; before the layout they do not depend on the run's settings."""
    if phase in SETUP:
        return SETUP[phase]
    phases = {} if settings is None else phases_of(settings)
    if phase in phases:
        return phases[phase]
    if is_blinding_phase(phase):
        return SETUP[BLINDING]
    phase_step(phase)
    return SETUP[LATER_ALIGNMENT]
