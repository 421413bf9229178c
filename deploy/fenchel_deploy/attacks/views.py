"""The knowledge of each adversary; no attack gets more than its role would have.

The true values that score an attack are in another module (`recorded.Truth`), and no attack reads them.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import gmpy2
import numpy as np
from numpy.typing import NDArray

from fenchel.v1 import vectors_pb2
from fenchel_client.crypto.keyfile import private_key_from_bytes
from fenchel_client.crypto.keys import PrivateKey
from fenchel_client.table import PartyTable
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.paillier import PublicKey, split
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.words import word_type
from fenchel_common.ids import ClientId, RunId
from fenchel_common.layout import FederationLayout
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import PartyRun, PartySetUp, RunSecrets
from fenchel_common.wire.records import round_result_from_bytes, round_task_from_bytes
from fenchel_common.wire.vectors import format_from_proto

Array = NDArray[np.float64]

SLOT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Message:
    """One task and the client's result; round 0 is the set-up.

    `records`, `task_body` and `result_body` are those of a task and a result of a round.
    """

    round_id: int
    phase: str
    client: ClientId
    task: bytes = field(repr=False)
    result: bytes = field(repr=False)

    @property
    def records(self) -> tuple[bytes, ...]:
        _, records, _ = round_task_from_bytes(self.task)
        return records

    @property
    def task_body(self) -> bytes:
        _, _, body = round_task_from_bytes(self.task)
        return body

    @property
    def result_body(self) -> bytes:
        body, _ = round_result_from_bytes(self.result, self.client)
        return body


@dataclass(frozen=True, slots=True)
class Transcript:
    """The server's knowledge of one run up to some round: all messages, and the public facts of the run; no secret."""

    run: RunId
    config: RunConfig
    key: RunKey
    layout: FederationLayout
    messages: tuple[Message, ...] = field(repr=False)

    def of(self, client: ClientId) -> tuple[Message, ...]:
        """The messages between the server and one party."""
        return tuple(message for message in self.messages if message.client == client)


@dataclass(frozen=True, slots=True)
class PartyView:
    """All that one party has: its data, its layout, the run's secrets, and its own tasks and results.

    Columns of `table` have the pseudonyms that the server knows, those of `own_table` their own names. `kept` is the
    party's record of the run, `setup` that of the set-up before its layout.
    """

    name: ClientId
    config: RunConfig
    table: PartyTable = field(repr=False)
    own_table: PartyTable = field(repr=False)
    layout: ClientLayout = field(repr=False)
    kept: PartyRun = field(repr=False)
    setup: PartySetUp = field(repr=False)
    secrets: RunSecrets = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)


class Oracle(Protocol):
    """Hands a party a task, for a server that leaves the protocol, and returns the result.

    Raises `FenchelError` if the party refuses.
    """

    def __call__(self, client: ClientId, round_id: int, phase: str, body: bytes) -> bytes: ...


class Eyes(Protocol):
    """An adversary's way to read the vectors of a message."""

    def read(self, vector: vectors_pb2.Vector) -> Array:
        """The values of a vector, or the best guess at them."""
        ...

    def difference(self, later: vectors_pb2.Vector, earlier: vectors_pb2.Vector) -> Array:
        """The values of `later` minus those of `earlier`, which has the same shape, or the best guess at them."""
        ...


@dataclass(frozen=True, slots=True)
class PublicEyes:
    """Reads vectors in clear, and ciphertexts that were made without a nonce, which need no key.

    The quotient of two ciphertexts with the same nonce has no nonce, so `difference` would notice a nonce that served
    twice. For any other ciphertext, the guess takes its lowest bits as the values. For masked words, the guess takes
    the words; the difference of two words with the same mask has no mask.
    """

    key: RunKey

    def read(self, vector: vectors_pb2.Vector) -> Array:
        if vector.WhichOneof("kind") == "masked":
            return _as_values(vector.masked, words_of(vector.masked))
        if self.key.public is None or vector.WhichOneof("kind") == "plain":
            return _read_plain(vector)
        encrypted, key = vector.encrypted, self.key.public
        return _guess(encrypted, split(encrypted.ciphertexts, key.ciphertext_bytes), key)

    def difference(self, later: vectors_pb2.Vector, earlier: vectors_pb2.Vector) -> Array:
        if later.WhichOneof("kind") == "masked":
            return _as_values(later.masked, words_of(later.masked) - words_of(earlier.masked))
        if self.key.public is None or later.WhichOneof("kind") == "plain":
            return self.read(later) - self.read(earlier)
        key = self.key.public
        modulus, width = key.n_squared, key.ciphertext_bytes
        pairs = zip(split(later.encrypted.ciphertexts, width), split(earlier.encrypted.ciphertexts, width), strict=True)
        return _guess(later.encrypted, [one * gmpy2.invert(other, modulus) % modulus for one, other in pairs], key)


@dataclass(frozen=True, slots=True)
class KeyEyes:
    """Opens everything, tags or not: for a party, and for a server to which one party has given the key."""

    private: PrivateKey | None = field(repr=False)

    @classmethod
    def of(cls, secrets: RunSecrets) -> "KeyEyes":
        return cls(private_key_from_bytes(secrets.private_key) if secrets.private_key else None)

    def read(self, vector: vectors_pb2.Vector) -> Array:
        if self.private is None or vector.WhichOneof("kind") == "plain":
            return _read_plain(vector)
        encrypted, public = vector.encrypted, self.private.public_key
        vector_format = format_from_proto(encrypted.format)
        plaintexts = self.private.raw_decrypt(split(encrypted.ciphertexts, public.ciphertext_bytes), threads=None)
        integers, _ = slot_layout(vector_format, public.bits).unpack(plaintexts)
        return vector_format.dequantise(integers.reshape(-1)[: encrypted.length])

    def difference(self, later: vectors_pb2.Vector, earlier: vectors_pb2.Vector) -> Array:
        return self.read(later) - self.read(earlier)


def words_of(masked: vectors_pb2.MaskedVector) -> NDArray[Any]:
    """The words of a masked vector, unsigned and of the width of its format."""
    kind = word_type(format_from_proto(masked.format))
    return np.frombuffer(masked.words, dtype=kind.newbyteorder("<")).astype(kind)


def _as_values(masked: vectors_pb2.MaskedVector, words: NDArray[Any]) -> Array:
    integers = words.view(f"i{words.dtype.itemsize}").astype(np.int64)
    return np.asarray(format_from_proto(masked.format).dequantise(integers), dtype=np.float64)


def _read_plain(vector: vectors_pb2.Vector) -> Array:
    plain = vector.plain
    values, width = (plain.short_values, 4) if plain.short_values else (plain.values, 8)
    integers = np.frombuffer(values, dtype=f"<i{width}").astype(np.int64)
    return np.asarray(format_from_proto(plain.format).dequantise(integers), dtype=np.float64)


def _guess(encrypted: vectors_pb2.EncryptedVector, ciphertexts: list[gmpy2.mpz], key: PublicKey) -> Array:
    vector_format, n = format_from_proto(encrypted.format), key.n
    layout = slot_layout(vector_format, key.bits)
    if all(number % n == 1 for number in ciphertexts):
        residues = [(number - 1) // n for number in ciphertexts]
        plaintexts = [m if 2 * m < n else m - n for m in residues]
        grid, _ = layout.unpack(plaintexts)
        integers = grid.reshape(-1)[: encrypted.length]
    else:
        width = layout.slots * SLOT_BYTES
        lowest = [number.to_bytes(key.ciphertext_bytes, "little")[:width] for number in ciphertexts]
        integers = np.frombuffer(b"".join(lowest), dtype="<i8")[: encrypted.length]
    return np.asarray(vector_format.dequantise(np.asarray(integers, dtype=np.int64)), dtype=np.float64)
