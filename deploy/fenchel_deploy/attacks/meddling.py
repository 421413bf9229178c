"""A server that leaves the protocol while a run is under way: it alters tasks and results on their way.

The real server half and the real parties of a recorded set-up play the rounds. A *meddler* stands between them: it may
change every body and every record, and knows what the server knows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import gmpy2
import numpy as np
from google.protobuf.message import Message as ProtoMessage

from fenchel.v1 import vectors_pb2
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import concatenate, split
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.setup import FINISH, ModelPart
from fenchel_common.wire.catalogue import phases_of
from fenchel_common.wire.records import (
    round_result_from_bytes,
    round_result_to_bytes,
    round_task_from_bytes,
    round_task_to_bytes,
)
from fenchel_common.wire.setup import model_part_to_bytes
from fenchel_common.wire.vectors import vector_from_proto, vector_to_proto
from fenchel_deploy.attacks.recorded import Recorded
from fenchel_deploy.attacks.views import Array
from fenchel_deploy.inprocess.parties import ATTEMPT, asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import AlgorithmServer, RoundReport

UNTAGGED: Final = 0
"""The tag of a block that the server makes: it has no secret to make a better one."""

Change = Callable[[Vector], Vector]


@dataclass(frozen=True, slots=True)
class Passing:
    """A task to a client, or a result of one, on its way; `body` is without its envelope, and may be changed."""

    phase: str
    client: ClientId
    body: ProtoMessage


class Meddler:
    """Changes nothing; a subclass changes what it is after."""

    def task(self, task: Passing) -> ProtoMessage:
        """The body that the client gets."""
        return task.body

    def records(self, _task: Passing, records: Sequence[bytes]) -> Sequence[bytes]:
        """The records that the client gets with a task."""
        return records

    def result(self, result: Passing) -> ProtoMessage:
        """The body that the server half gets."""
        return result.body


HONEST: Final = Meddler()


class Played:
    """The rounds of a run from the end of a recorded set-up on, with restarted parties.

    Attributes
    ----------
    state
        The state folders of the parties.
    results
        The bodies of the parties' results by attempt, round, phase and client, as the parties gave them.
    reports
        The reports of the rounds that were not taken back.
    """

    def __init__(self, recorded: Recorded) -> None:
        self.run = recorded.transcript.run
        self.layout = recorded.transcript.layout
        self.key = recorded.transcript.key
        self._recorded = recorded
        self._settings = recorded.transcript.config.algorithm_settings()
        self._bodies = {phase: messages.inside for phase, messages in phases_of(self._settings).items()}
        restarted = recorded.restarted()
        self._parties = restarted.parties
        self.state = restarted.state
        self._server: AlgorithmServer = recorded.server()
        self._before = self._server.snapshot()
        self._begun = 0
        self.attempt = ATTEMPT
        self.results: dict[tuple[int, int, str, ClientId], ProtoMessage] = {}
        self.reports: list[RoundReport] = []

    @property
    def round_id(self) -> int:
        """The last round that has ended."""
        return len(self.reports)

    def round(self, meddler: Meddler = HONEST) -> RoundReport:
        """Plays the next round with all parties; raises the refusal of the first party that refuses."""
        self._begun = number = self.round_id + 1
        everyone = frozenset(self._parties)
        restarted = everyone if number == 1 else frozenset[ClientId]()
        self._before = self._server.snapshot()
        first = self._server.begin_round(RoundId(number), everyone, restarted, attempt=self.attempt)

        def answer(phase: str, client: ClientId, task: bytes) -> bytes:
            return self._answer(number, phase, client, task, meddler)

        self.reports.append(run_phases(first, self._server, answer))
        return self.reports[-1]

    def take_back(self) -> None:
        """Goes back to the beginning of the round that was begun last, and on to a higher attempt.

        So does a server that was killed before the end of the round, or one whose parties failed.
        """
        del self.reports[self._begun - 1 :]
        self._server = self._recorded.server(self._before)
        self.attempt += 1

    def ending(self, client: ClientId) -> bytes:
        """The state that the server half has for a party at the end of a run."""
        return self._server.last_state(client)

    def with_other_model(self, ending: bytes, weight: float) -> bytes:
        """The state of the end of a run, with a model all of whose weights are the same."""
        first, records, body = round_task_from_bytes(ending)
        message = altered(self._bodies[FINISH]["RoundTask.body"].FromString(body), self.key, invented(weight))
        return round_task_to_bytes(message.SerializeToString(), first=first, records=records)

    def finish(self, client: ClientId, state: bytes) -> bytes:
        """Tells a party that the run is over, with this state; the party's release of the model, empty if none."""
        part = ModelPart(state, primal=None, dual=None, gap=None)
        body = model_part_to_bytes(part)
        return asked(self._parties[client], self.run, self.round_id + 1, FINISH, body, attempt=self.attempt)

    def _answer(self, number: int, phase: str, client: ClientId, task: bytes, meddler: Meddler) -> bytes:
        kinds = self._bodies[phase]
        first, records, body = round_task_from_bytes(task)
        passing = Passing(phase, client, kinds["RoundTask.body"].FromString(body))
        told = meddler.records(passing, records)
        changed = round_task_to_bytes(meddler.task(passing).SerializeToString(), first=first, records=told)
        made = asked(self._parties[client], self.run, number, phase, changed, attempt=self.attempt)
        answered, confirmed = round_result_from_bytes(made, client)
        self.results[self.attempt, number, phase, client] = kinds["RoundResult.body"].FromString(answered)
        result = meddler.result(Passing(phase, client, kinds["RoundResult.body"].FromString(answered)))
        return round_result_to_bytes(
            result.SerializeToString(), nonce=confirmed.nonce, confirmation=confirmed.confirmation
        )


def goes_on(play: Callable[..., object], *given: object) -> bool:
    """Whether nobody refuses anything in what is played."""
    try:
        play(*given)
    except FenchelError:
        return False
    return True


def vectors_in(message: ProtoMessage) -> Iterator[vectors_pb2.Vector]:
    """All vectors of a message and of the messages in it, in the order of their fields."""
    if isinstance(message, vectors_pb2.Vector):
        yield message
        return
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                yield from vectors_in(one)


def altered(message: ProtoMessage, key: RunKey, change: Change) -> ProtoMessage:
    """A copy of the message in which every vector that has blocks is changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    for vector in vectors_in(copy):
        own = key if vector.WhichOneof("kind") == "encrypted" else RunKey.in_clear(key.bits)
        known = vector_from_proto(vector, own)
        if known.block_count:
            vector.CopyFrom(vector_to_proto(change(known)))
    return copy


def exchanged(message: ProtoMessage, other: ProtoMessage, key: RunKey) -> ProtoMessage:
    """A copy of the message with those vectors of another one that have the same length, passed off as under `key`."""
    copy = type(message)()
    copy.CopyFrom(message)
    for vector, stale in zip(vectors_in(copy), vectors_in(other), strict=False):
        if _shape(vector) == _shape(stale):
            vector.CopyFrom(stale)
            if key.public is not None and vector.WhichOneof("kind") == "encrypted":
                vector.encrypted.key_fingerprint = key.public.fingerprint
    return copy


def _shape(vector: vectors_pb2.Vector) -> tuple[str | None, int]:
    kind = vector.WhichOneof("kind")
    return kind, vector.encrypted.length if kind == "encrypted" else len(vector.plain.values)


def nothing(vector: Vector) -> Vector:
    """A vector of zeros in the place of a contribution, so that the sum lacks it."""
    if isinstance(vector, EncryptedVector):
        return encrypted_by_anybody(np.zeros(vector.length), vector.format, RunKey.of(vector.key))
    assert isinstance(vector, PlainVector), "there are two kinds"
    return replace(vector, integers=np.zeros_like(vector.integers), tags=tuple(UNTAGGED for _ in vector.tags))


def doubled(vector: Vector) -> Vector:
    """A contribution that counts twice and says that it counts once."""
    twice = vector.plus(vector)
    assert isinstance(twice, EncryptedVector | PlainVector), "there are two kinds"
    return replace(twice, terms=vector.terms)


def without(whole: Vector, part: Vector) -> Vector:
    """A sum without one of its contributions."""
    if isinstance(whole, EncryptedVector):
        assert isinstance(part, EncryptedVector), "a sum of ciphertexts has contributions in ciphertext"
        key, modulus = whole.key, whole.key.n_squared
        pairs = zip(
            split(whole.ciphertexts, key.ciphertext_bytes), split(part.ciphertexts, key.ciphertext_bytes), strict=True
        )
        numbers = [one * gmpy2.invert(other, modulus) % modulus for one, other in pairs]
        return replace(whole, ciphertexts=concatenate(numbers, key.ciphertext_bytes))
    assert isinstance(whole, PlainVector), "there are two kinds"
    assert isinstance(part, PlainVector), "a sum in clear has contributions in clear"
    tags = tuple(one - other for one, other in zip(whole.tags, part.tags, strict=True))
    return replace(whole, integers=whole.integers - part.integers, tags=tags)


def shifted(by: float) -> Change:
    """A vector whose values are all higher by a number of the server's choice."""

    def change(vector: Vector) -> Vector:
        added: Vector = invented(by)(vector)
        moved = vector.plus(added)
        assert isinstance(moved, EncryptedVector | PlainVector), "there are two kinds"
        return replace(moved, terms=vector.terms)

    return change


def invented(value: float) -> Change:
    """A vector of the server's own numbers in the place of a sum."""

    def change(vector: Vector) -> Vector:
        values = np.full(vector.length, value)
        if isinstance(vector, EncryptedVector):
            made: Vector = encrypted_by_anybody(values, vector.format, RunKey.of(vector.key))
            assert isinstance(made, EncryptedVector), "there is a key"
            return replace(made, terms=vector.terms)
        assert isinstance(vector, PlainVector), "there are two kinds"
        return replace(_in_clear(values, vector), terms=vector.terms)

    return change


def encrypted_by_anybody(values: Array, vector_format: VectorFormat, key: RunKey) -> Vector:
    """A vector encrypted with the public key alone, without valid tags; in clear if the run has no key.

    It is made without a nonce, because nobody has to be kept from reading it.
    """
    public = key.public
    if public is None:
        return PlainVector(key.bits, vector_format, 1, vector_format.quantise(values))
    layout = slot_layout(vector_format, key.bits)
    grid = layout.grid(vector_format.quantise(values))
    numbers = [(1 + m * public.n) % public.n_squared for m in layout.pack(grid, [UNTAGGED] * len(grid))]
    return EncryptedVector(public, vector_format, values.size, 1, concatenate(numbers, public.ciphertext_bytes))


def _in_clear(values: Array, like: PlainVector) -> PlainVector:
    """A vector in clear that can stand beside `like`."""
    tags = tuple(UNTAGGED for _ in like.tags)
    return PlainVector(like.key_bits, like.format, 1, like.format.quantise(values), tags)
