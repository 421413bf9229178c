"""The pieces of lists in the alignment by blinding parties, as bytes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fenchel.v1 import alignment_pb2
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import MAX_CLIENTS, MAX_PARTY_SAMPLES
from fenchel_common.wire.parsing import parsed_message

ELEMENT_BYTES: Final = 32
TAG_BYTES: Final = 32
PIECE_ELEMENTS: Final = 1 << 15
"""The number of elements of each piece of a list but the last one."""
WORK_ELEMENTS: Final = 1 << 17
"""The most elements that a party works on in a phase: a few seconds of one core."""
SEAL_BYTES: Final = 28
"""The bytes by which sealed elements are longer."""
MAX_PIECES: Final = MAX_CLIENTS
"""The most pieces that a party works on in a phase."""
PIECE_FRAME_BYTES: Final = 128
"""The most bytes of a piece without its elements."""
_LAST_NUMBER: Final = MAX_PARTY_SAMPLES // PIECE_ELEMENTS
_PHASE: Final = re.compile(r"blind_[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive elements of one party's list, which has the position `origin` in the roster.

    `step` is the step of the list's way that made the elements. A piece has elements with a tag, or the same elements
    sealed; one that an owner is asked to list has neither.
    """

    origin: int
    step: int
    number: int
    elements: bytes = field(default=b"", repr=False)
    tag: bytes = field(default=b"", repr=False)
    sealed: bytes = field(default=b"", repr=False)

    @property
    def count(self) -> int:
        """The number of elements, sealed or not."""
        return (len(self.elements) or max(0, len(self.sealed) - SEAL_BYTES)) // ELEMENT_BYTES


def blinding_phase(number: int) -> str:
    """The phase in which parties work on pieces for the `number`-th time, counted from 1."""
    return f"blind_{number}"


def is_blinding_phase(phase: str) -> bool:
    return _PHASE.fullmatch(phase) is not None


def piece_sizes(samples: int) -> list[int]:
    """The number of elements of each piece of a list of `samples` elements."""
    whole, rest = divmod(samples, PIECE_ELEMENTS)
    return [PIECE_ELEMENTS] * whole + [rest] * bool(rest)


def work_to_bytes(pieces: Iterable[Piece]) -> bytes:
    return alignment_pb2.AlignmentWork(pieces=pieces_to_protos(pieces)).SerializeToString()


def work_from_bytes(body: bytes) -> tuple[Piece, ...]:
    return pieces_from_protos(parsed_message(alignment_pb2.AlignmentWork, body).pieces)


def worked_to_bytes(pieces: Iterable[Piece], finisher: bytes = b"") -> bytes:
    return alignment_pb2.AlignmentWorked(pieces=pieces_to_protos(pieces), finisher=finisher).SerializeToString()


def worked_from_bytes(body: bytes) -> tuple[tuple[Piece, ...], bytes]:
    """The pieces, and the exponent by which the server finishes the party's own list, or nothing."""
    message = parsed_message(alignment_pb2.AlignmentWorked, body)
    if len(message.finisher) not in (0, ELEMENT_BYTES):
        raise InvalidInput(f"alignment: finisher: must have {ELEMENT_BYTES} bytes")
    return pieces_from_protos(message.pieces), message.finisher


def pieces_to_protos(pieces: Iterable[Piece]) -> list[alignment_pb2.AlignmentPiece]:
    return [
        alignment_pb2.AlignmentPiece(
            origin=piece.origin,
            step=piece.step,
            number=piece.number,
            elements=piece.elements,
            sealed=piece.sealed,
            tag=piece.tag,
        )
        for piece in pieces
    ]


def pieces_from_protos(messages: Sequence[alignment_pb2.AlignmentPiece]) -> tuple[Piece, ...]:
    return tuple(map(_piece_from_proto, messages))


def _piece_from_proto(message: alignment_pb2.AlignmentPiece) -> Piece:
    elements, sealed = message.elements, message.sealed  # every look at a field of bytes copies it
    content = len(sealed) - SEAL_BYTES if sealed else len(elements)
    if content % ELEMENT_BYTES or not 0 <= content <= PIECE_ELEMENTS * ELEMENT_BYTES:
        raise InvalidInput(f"alignment: a piece must have at most {PIECE_ELEMENTS} elements of {ELEMENT_BYTES} bytes")
    if elements and sealed:
        raise InvalidInput("alignment: a piece has elements, or sealed ones, and not both")
    if len(message.tag) != (TAG_BYTES if elements else 0):
        raise InvalidInput(f"alignment: tag: must have {TAG_BYTES} bytes where there are elements")
    if message.origin >= MAX_CLIENTS or message.step > MAX_CLIENTS or message.number > _LAST_NUMBER:
        raise InvalidInput("alignment: origin, step, number: are more than there can be")
    return Piece(message.origin, message.step, message.number, elements, message.tag, sealed)
