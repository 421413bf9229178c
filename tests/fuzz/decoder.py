"""What a decoder is to a fuzzer, and the contract that it must keep.

A decoder returns a value or raises a `FenchelError`, whatever bytes it is given. It does so soon, and without taking
more memory than a small multiple of its input, whatever sizes the input announces.
"""

import resource
import signal
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeVar

from cryptography.utils import CryptographyDeprecationWarning
from google.protobuf.message import DecodeError, Message

from fenchel_common.errors import FenchelError, InvalidInput

M = TypeVar("M", bound=Message)

HANG_S = 10.0
"""An input of a few kilobytes that keeps a decoder busy for so long is a hang."""
FREE_BYTES = 4 * 1024 * 1024
BYTES_BY_INPUT_BYTE = 64
"""A decoder may take FREE_BYTES, and so many bytes for each byte of its input; Python's objects alone take a few."""
ADDRESS_SPACE_BYTES = 512 * 1024 * 1024
"""What a whole campaign may add to its address space; an allocation beyond it fails, which is a finding."""


@dataclass(frozen=True)
class Decoder:
    """One way in.

    Attributes
    ----------
    read
        Decodes; what it needs besides the bytes is bound already.
    seeds
        Valid encodings, which `read` takes.
    covers
        The functions of the project that `read` is there to test.
    message
        The protobuf message that the bytes are, for mutations of its fields.
    bytes_by_input_byte
        More than the default where the format itself is compressed.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    covers: tuple[Callable[..., object], ...] = ()
    message: type[Message] | None = None
    bytes_by_input_byte: int = BYTES_BY_INPUT_BYTE


@dataclass(frozen=True)
class Finding:
    """An input that breaks the contract."""

    decoder: str
    problem: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.decoder}: {self.problem}; input {self.data.hex()}"


class Hang(BaseException):
    """Raised in the middle of a decoder by the alarm."""


def warm_up(decoders: Iterable[Decoder]) -> None:
    """Reads the seeds, so that modules imported at the first use of a decoder count to none of its inputs."""
    for decoder in decoders:
        for seed in decoder.seeds:
            decoder.read(seed)


def try_input(decoder: Decoder, data: bytes) -> Finding | bool:
    """Whether the decoder takes this input, or what is wrong with how it deals with it."""
    try:
        decoder.read(data)
    except FenchelError:
        return False
    except (Exception, Hang) as error:
        return Finding(decoder.name, f"{type(error).__name__}: {error}"[:200], data)
    return True


def try_memory(decoder: Decoder, data: bytes) -> Finding | bool:
    """Like `try_input`, with memory watched, which is slow."""
    tracemalloc.start()
    try:
        outcome = try_input(decoder, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if not isinstance(outcome, Finding) and peak > FREE_BYTES + decoder.bytes_by_input_byte * len(data):
        return Finding(decoder.name, f"took {peak} bytes for {len(data)}", data)
    return outcome


@contextmanager
def guarded() -> Iterator[None]:
    """While it lasts, a decoder that hangs is interrupted and one that asks for huge memory does not get it.

    Inputs that take longer than `HANG_S` together are no hang: call `rewind` before each.
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"not done after {HANG_S:g} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    ceiling = address_space_bytes() + ADDRESS_SPACE_BYTES
    previous = signal.signal(signal.SIGALRM, interrupt)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling if hard < 0 else min(ceiling, hard), hard))
    try:
        with warnings.catch_warnings():
            # The library warns of what it will refuse some day; until then it parses it, and no decoder has failed.
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def rewind() -> None:
    """Sets the alarm of `guarded` to ring `HANG_S` from now."""
    signal.setitimer(signal.ITIMER_REAL, HANG_S)


def address_space_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def parsed(kind: type[M], data: bytes) -> M:
    """A message, for decoders that take one that gRPC or another decoder has parsed."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidInput("not such a message") from None
