"""The choices of an averaging server as bytes, which are part of the records of a run."""

from collections.abc import Sequence

import numpy as np

from fenchel.v1 import averaging_pb2 as pb
from fenchel_common.algorithms.averaging.choices import Numbers, RecordedPlan, RoundChoices
from fenchel_common.algorithms.averaging.rails import Positions
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.layout import is_ascending
from fenchel_common.wire.arrays import doubles_from_bytes, doubles_to_bytes, numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.averaging import numbers_from_proto, numbers_to_proto
from fenchel_common.wire.parsing import parsed_message


def round_choices_to_bytes(choices: RoundChoices, clients: Sequence[ClientId]) -> bytes:
    """The choices at the beginning of a round; `clients` are the parties in roster order."""
    return pb.AveragingRoundChoices(
        present=numbers_to_bytes([clients.index(client) for client in choices.present]),
        active=numbers_to_bytes([clients.index(client) for client in choices.active]),
        closing=choices.closing,
        plan=None if choices.plan is None else _plan_to_proto(choices.plan),
    ).SerializeToString(deterministic=True)


def round_choices_from_bytes(data: bytes, clients: Sequence[ClientId], *, length: int) -> RoundChoices:
    """Reads the choices at the beginning of a round; `length` is the number of the reader's coordinates."""
    message = parsed_message(pb.AveragingRoundChoices, data)
    active = _clients(message.active, clients, "active")
    return RoundChoices(
        present=_clients(message.present, clients, "present"),
        active=active,
        closing=message.closing,
        plan=_plan_from_proto(message.plan, active, length) if message.HasField("plan") else None,
    )


def plan_to_bytes(plan: RecordedPlan) -> bytes:
    return _plan_to_proto(plan).SerializeToString(deterministic=True)


def plan_from_bytes(data: bytes, active: Sequence[ClientId], *, length: int) -> RecordedPlan:
    """Reads the plan for the clients that may train; `length` is the number of the reader's coordinates."""
    return _plan_from_proto(parsed_message(pb.AveragingPlan, data), active, length)


def closing_to_bytes(told: Numbers) -> bytes:
    return pb.AveragingClosing(told=numbers_to_proto(told)).SerializeToString(deterministic=True)


def closing_from_bytes(data: bytes) -> Numbers:
    return numbers_from_proto(parsed_message(pb.AveragingClosing, data).told, "closing.told")


def _plan_to_proto(plan: RecordedPlan) -> pb.AveragingPlan:
    coordinates = plan.coordinates
    return pb.AveragingPlan(
        told=numbers_to_proto(plan.told),
        weights=doubles_to_bytes(np.array(list(plan.weights.values()), dtype=np.float64)),
        coordinates=None if coordinates is None else pb.AveragingCoordinates(positions=numbers_to_bytes(coordinates)),
        restating=plan.restating,
    )


def _plan_from_proto(message: pb.AveragingPlan, active: Sequence[ClientId], length: int) -> RecordedPlan:
    weights = doubles_from_bytes(message.weights, field="plan.weights")
    if len(weights) != len(active):
        raise InvalidInput("plan.weights: one is due for each party that may train")
    return RecordedPlan(
        weights=dict(zip(active, weights.tolist(), strict=True)),
        told=numbers_from_proto(message.told, "plan.told"),
        coordinates=_coordinates_from_proto(message.coordinates, length) if message.HasField("coordinates") else None,
        restating=message.restating,
    )


def _coordinates_from_proto(message: pb.AveragingCoordinates, length: int) -> Positions:
    coordinates = numbers_from_bytes(message.positions, most=length, field="plan.coordinates")
    if not len(coordinates) or coordinates[-1] >= length or not is_ascending(coordinates):
        raise InvalidInput(f"plan.coordinates: must be ascending and below {length}, at least one of them")
    return coordinates


def _clients(data: bytes, clients: Sequence[ClientId], field: str) -> tuple[ClientId, ...]:
    positions = numbers_from_bytes(data, most=len(clients), field=field)
    if (positions >= len(clients)).any() or not is_ascending(positions):
        raise InvalidInput(f"{field}: must be ascending positions in the roster")
    return tuple(clients[position] for position in positions.tolist())
