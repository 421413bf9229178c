"""The messages of a corrective run of several classes as bytes: those of its problems, one for each class, together.

The readers take such a message apart, and raise `InvalidInput` with the name of the wrong field. `wire/corrective.py`
reads the parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fenchel.v1 import corrective_pb2 as pb
from fenchel_common.algorithms.corrective.messages import PrimalChoices
from fenchel_common.errors import InvalidInput
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import Body, parsed_message


@dataclass(frozen=True, slots=True)
class ClassRoundChoices:
    """The choices of the server at the beginning of a round.

    Attributes
    ----------
    classes
        The positions of the classes whose problems are under way, ascending.
    round
        The bytes of the `RoundChoices` of each of these problems.
    """

    classes: tuple[int, ...]
    round: bytes


def class_tasks_to_bytes(tasks: Sequence[bytes]) -> bytes:
    return pb.CorrectiveClassTasks(tasks=tasks).SerializeToString(deterministic=True)


def class_tasks_from_bytes(data: bytes, problems: int) -> tuple[bytes, ...]:
    """The task of each of so many problems."""
    return _all_of(tuple(parsed_message(pb.CorrectiveClassTasks, data).tasks), problems, "tasks")


def class_results_to_bytes(results: Sequence[bytes]) -> bytes:
    return pb.CorrectiveClassResults(results=results).SerializeToString(deterministic=True)


def class_results_from_bytes(data: Body, problems: int) -> tuple[bytes, ...]:
    """The result of each of so many problems."""
    return _all_of(tuple(parsed_message(pb.CorrectiveClassResults, data).results), problems, "results")


def class_round_choices_to_bytes(choices: ClassRoundChoices) -> bytes:
    message = pb.CorrectiveClassRoundChoices(
        classes=numbers_to_bytes(choices.classes), round=pb.CorrectiveRoundChoices.FromString(choices.round)
    )
    return message.SerializeToString(deterministic=True)


def class_round_choices_from_bytes(data: bytes, problems: int) -> ClassRoundChoices:
    """The choices in a run of so many classes."""
    message = parsed_message(pb.CorrectiveClassRoundChoices, data)
    classes = _positions(message.classes, problems, "classes")
    if not classes or not message.HasField("round"):
        raise InvalidInput("classes, round: a round has at least one problem under way, and choices")
    return ClassRoundChoices(classes, message.round.SerializeToString(deterministic=True))


def class_primal_choices_to_bytes(choices: Mapping[int, PrimalChoices]) -> bytes:
    """The choices for each problem under way; the best models are reported of all of them or of none."""
    message = pb.CorrectiveClassPrimalChoices(
        accepted=numbers_to_bytes([problem for problem, chosen in choices.items() if chosen.accepted]),
        reported=all(chosen.reported for chosen in choices.values()),
    )
    return message.SerializeToString(deterministic=True)


def class_primal_choices_from_bytes(data: bytes, classes: Sequence[int]) -> dict[int, PrimalChoices]:
    """The choices for each of the `classes` whose problems are under way."""
    message = parsed_message(pb.CorrectiveClassPrimalChoices, data)
    accepted = _positions(message.accepted, max(classes) + 1, "accepted")
    if not set(accepted) <= set(classes):
        raise InvalidInput("accepted: must be problems under way")
    return {problem: PrimalChoices(problem in accepted, message.reported) for problem in classes}


def _all_of(parts: tuple[bytes, ...], problems: int, field: str) -> tuple[bytes, ...]:
    if len(parts) != problems:
        raise InvalidInput(f"{field}: must be one for each of the {problems} problems under way")
    return parts


def _positions(data: bytes, most: int, field: str) -> tuple[int, ...]:
    positions = numbers_from_bytes(data, most=most, field=field)
    if (positions >= most).any() or not (np.diff(positions) > 0).all():
        raise InvalidInput(f"{field}: must be ascending positions in the list of classes")
    return tuple(positions.tolist())
