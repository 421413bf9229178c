"""Bodies made to take far more memory than they have bytes, and the memory that a process took for them."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fenchel.v1 import alignment_pb2, records_pb2
from fenchel_common.layout import MAX_FEATURES, MAX_PARTY_SAMPLES
from fenchel_common.records import CONFIRMATION_BYTES, NONCE_BYTES
from fenchel_common.wire.records import round_result_to_bytes
from support.messages import varint

ROOM_BYTES = 24 * 1024 * 1024
"""Besides bodies: chunks under way, flow control, what the allocator keeps, a phase of a small federation."""
LONG_BYTES = 64 * 1024 * 1024
_DELIMITED = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)

Bodies = dict[str, Callable[[], bytes]]
"""Bodies by name; each is made when it is sent."""


@dataclass(frozen=True)
class Process:
    """Memory of a process, as the system counts it."""

    pid: int

    def forget_peak(self) -> int:
        """Forgets the peak so far, and returns the bytes in use now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self._status_bytes("VmRSS")

    @property
    def peak_bytes(self) -> int:
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024


@dataclass(frozen=True)
class Attack:
    """A hostile body: its phase, its name, its bytes, the most that the phase allows, and what its receiver took."""

    phase: str
    name: str
    size: int
    limit: int
    growth: int

    @property
    def bounded(self) -> bool:
        return self.growth <= 4 * self.limit + ROOM_BYTES


def full_of_elements(kind: type[Message], size: int) -> Bodies:
    """Bodies of so many bytes: a field that comes again and again, empty or with one byte, and packed numbers."""
    made = without_fields(size)
    for number in sorted(field.number for field in kind.DESCRIPTOR.fields if field.type in _DELIMITED):
        tag = bytes([number << 3 | 2])
        made[f"field {number}, empty"] = partial(operator.mul, tag + b"\0", size // 2)
        made[f"field {number}, one character"] = partial(operator.mul, tag + b"\1a", size // 3)
    return made


def without_fields(size: int) -> Bodies:
    """Bodies of so many bytes with elements that no message has."""
    return {
        "packed varints": lambda: b"\x7a" + varint(size - 8) + b"\x01" * (size - 8),
        "unknown fields": lambda: b"\x7a\x00" * (size // 2),
    }


def in_tasks(bodies: Bodies) -> Bodies:
    """The bodies in envelopes of tasks of a round."""
    return {
        f"inside, {name}": partial(lambda make: records_pb2.RoundTask(body=make()).SerializeToString(), make)
        for name, make in bodies.items()
    }


def in_results(bodies: Bodies) -> Bodies:
    """The bodies in envelopes of results of a round."""

    def enclosed(make: Callable[[], bytes]) -> bytes:
        return round_result_to_bytes(make(), nonce=bytes(NONCE_BYTES), confirmation=bytes(CONFIRMATION_BYTES))

    return {f"inside, {name}": partial(enclosed, make) for name, make in bodies.items()}


def too_long(limit: int) -> Bodies:
    return {"too long": lambda: bytes(max(LONG_BYTES, limit + 1))}


def listings() -> Bodies:
    """Listings of one pseudonym again and again, and of as many pseudonyms and elements as there may be."""

    def listing(features: bytes, elements: bytes = bytes(32)) -> bytes:
        message = alignment_pb2.AlignmentListing(features=features, elements=elements, tag=bytes(32))
        return message.SerializeToString()

    def most_features() -> bytes:
        ascending = b"".join(number.to_bytes(16, "big") for number in range(MAX_FEATURES - 1))
        return listing(ascending + bytes(16))

    return {
        "one pseudonym again and again": lambda: listing(bytes(LONG_BYTES // 16 * 16)),
        "as many features as there may be": most_features,
        "as many elements as there may be": lambda: listing(bytes(15), bytes(32 * MAX_PARTY_SAMPLES)),
    }


def layouts(size: int) -> Bodies:
    """Layouts of empty lists of features to ignore, of empty cohorts, of leaves, of more rows than the shard has."""
    frame = alignment_pb2.ClientLayout(sample_count=40, slots=30)

    def rows() -> bytes:
        frame.rows = bytes((size - 64) // 4 * 4)
        return frame.SerializeToString()

    def repeated(field: bytes) -> Callable[[], bytes]:
        return lambda: frame.SerializeToString() + field * ((size - 64) // len(field))

    return {
        "empty cuts": repeated(b"\x42\x00"),
        "empty cohorts": repeated(b"\x62\x00"),
        "leaves one by one": repeated(b"\x6a\x00"),
        "too many rows": rows,
    }
