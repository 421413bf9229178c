"""HyFDCA's choices in the records of a run, as bytes: the same bytes for all parties.

Every reader refuses choices that no server may make, and bytes other than those that the writer gives for the same
choices, with `InvalidInput`. So a record has no room for anything else.
"""

from collections.abc import Collection, Sequence

import numpy as np

from fenchel.v1 import hyfdca_pb2
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import parsed_message


def round_choices_to_bytes(choices: RoundChoices, clients: Sequence[ClientId]) -> bytes:
    """The bytes of the choices for a round; `clients` are the parties in roster order."""
    return hyfdca_pb2.HyfdcaRoundChoices(
        available=_positions(choices.available, clients),
        active=_positions(choices.active, clients),
        closing=choices.closing,
        shares=[choices.shares[client] for client in clients if client in choices.shares],
        proportional=choices.proportional,
    ).SerializeToString(deterministic=True)


def round_choices_from_bytes(
    data: bytes, clients: Sequence[ClientId], label_holders: Collection[ClientId]
) -> RoundChoices:
    message = parsed_message(hyfdca_pb2.HyfdcaRoundChoices, data)
    available = _parties(message.available, clients, "available")
    active = _parties(message.active, clients, "active")
    if not set(active) <= set(available):
        raise InvalidInput("active: must be among the available parties")
    if message.closing and active:
        raise InvalidInput("active: nobody updates samples in a closing round")
    drawing = [client for client in active if client in label_holders]
    if len(message.shares) != len(drawing) or not all(0.0 < share <= 1.0 for share in message.shares):
        raise InvalidInput("shares: every active party with labels must have one, above 0 and at most 1")
    choices = RoundChoices(
        available=frozenset(available),
        active=frozenset(active),
        closing=message.closing,
        shares=dict(zip(drawing, message.shares, strict=True)),
        proportional=message.proportional,
    )
    _check_form(data, round_choices_to_bytes(choices, clients))
    return choices


def left_out_to_bytes(left_out: Collection[ClientId], clients: Sequence[ClientId]) -> bytes:
    """The bytes of the parties that failed in a phase, none if nobody did; `clients` are in roster order."""
    return hyfdca_pb2.HyfdcaLeftOut(parties=_positions(left_out, clients)).SerializeToString(deterministic=True)


def left_out_from_bytes(data: bytes, clients: Sequence[ClientId]) -> frozenset[ClientId]:
    left_out = frozenset(_parties(parsed_message(hyfdca_pb2.HyfdcaLeftOut, data).parties, clients, "parties"))
    _check_form(data, left_out_to_bytes(left_out, clients))
    return left_out


def _check_form(data: bytes, written: bytes) -> None:
    if data != written:
        raise InvalidInput("choices: are not in the one form that these choices have")


def _positions(named: Collection[ClientId], clients: Sequence[ClientId]) -> bytes:
    return numbers_to_bytes([position for position, client in enumerate(clients) if client in named])


def _parties(data: bytes, clients: Sequence[ClientId], field: str) -> list[ClientId]:
    positions = numbers_from_bytes(data, most=len(clients), field=field)
    if (positions >= len(clients)).any() or not (np.diff(positions) > 0).all():
        raise InvalidInput(f"{field}: must be ascending positions in the roster")
    return [clients[position] for position in positions.tolist()]
