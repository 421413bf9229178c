"""Records of a run, and the envelopes of the tasks and results of a round, as bytes."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from fenchel.v1 import records_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import CONFIRMATION_BYTES, NONCE_BYTES, Given, Moment, Record
from fenchel_common.wire.arrays import numbers_from_bytes, numbers_to_bytes
from fenchel_common.wire.parsing import B, parsed_message, split_message

_LENGTH_BYTES = 4


def record_to_bytes(record: Record, clients: Sequence[ClientId]) -> bytes:
    """The bytes of a record, which every party gets; `clients` are the parties in roster order."""
    return records_pb2.PhaseRecord(
        attempt=record.moment.attempt,
        round=record.moment.round,
        phase=record.moment.phase,
        parties=numbers_to_bytes([clients.index(given.party) for given in record.given]),
        nonces=b"".join(given.nonce for given in record.given),
        confirmations=b"".join(given.confirmation for given in record.given),
        choices=record.choices,
    ).SerializeToString(deterministic=True)


def record_from_bytes(data: bytes, clients: Sequence[ClientId]) -> Record:
    message = parsed_message(records_pb2.PhaseRecord, data)
    positions = numbers_from_bytes(message.parties, most=len(clients), field="record: parties")
    if (positions >= len(clients)).any() or not (np.diff(positions) > 0).all():
        raise InvalidInput("record: parties: must be ascending positions in the roster")
    nonces = _pieces(message.nonces, NONCE_BYTES, count=len(positions), field="record: nonces")
    confirmations = _pieces(
        message.confirmations, CONFIRMATION_BYTES, count=len(positions), field="record: confirmations"
    )
    given = tuple(
        Given(clients[position], nonce, confirmation)
        for position, nonce, confirmation in zip(positions.tolist(), nonces, confirmations, strict=True)
    )
    return Record(Moment(message.attempt, RoundId(message.round), message.phase), given, message.choices)


def records_to_bytes(records: Iterable[bytes]) -> bytes:
    """The bytes of several records, as one field of a message."""
    return framed(*records)


def records_from_bytes(data: bytes) -> tuple[bytes, ...]:
    records = []
    position = 0
    while position < len(data):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise InvalidInput("records: the last record is cut off")
        records.append(data[start:position])
    return tuple(records)


def round_task_to_bytes(body: bytes, *, first: int, records: Iterable[bytes]) -> bytes:
    """A task with the records from number `first` on, which its party does not have yet."""
    message = records_pb2.RoundTask(first=first, records=records_to_bytes(records), body=body)
    return message.SerializeToString()


def round_task_from_bytes(data: bytes) -> tuple[int, tuple[bytes, ...], bytes]:
    """The number of records before the first one, the records, and the body."""
    message = parsed_message(records_pb2.RoundTask, data)
    return message.first, records_from_bytes(message.records), message.body


def round_result_to_bytes(body: bytes, *, nonce: bytes, confirmation: bytes) -> bytes:
    return records_pb2.RoundResult(nonce=nonce, confirmation=confirmation, body=body).SerializeToString()


def round_result_from_bytes(data: B, party: ClientId) -> tuple[B, Given]:
    """The body of a result, and what the record of its phase says of it; the confirmation is not verified."""
    message, body = split_message(records_pb2.RoundResult, data, "body")
    if (len(message.nonce), len(message.confirmation)) != (NONCE_BYTES, CONFIRMATION_BYTES):
        raise InvalidInput(
            f"nonce, confirmation: must have {NONCE_BYTES} and {CONFIRMATION_BYTES} bytes in a result of a round"
        )
    return body, Given(party, message.nonce, message.confirmation)


def positions_to_bytes(named: Collection[ClientId], clients: Sequence[ClientId]) -> bytes:
    """A set of clients as positions in the roster, for the choices in a record."""
    return numbers_to_bytes([position for position, client in enumerate(clients) if client in named])


def positions_from_bytes(data: bytes, clients: Sequence[ClientId], field: str) -> frozenset[ClientId]:
    positions = numbers_from_bytes(data, most=len(clients), field=field)
    if (positions >= len(clients)).any() or not (np.diff(positions) > 0).all():
        raise InvalidInput(f"{field}: must be ascending positions in the roster")
    return frozenset(clients[position] for position in positions.tolist())


def _pieces(data: bytes, width: int, *, count: int, field: str) -> list[bytes]:
    if len(data) != width * count:
        raise InvalidInput(f"{field}: must have {width} bytes for each party")
    return [data[start : start + width] for start in range(0, len(data), width)]
