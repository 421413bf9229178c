"""Both halves of an algorithm in one process, with absent clients and altered messages, round by round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_common.errors import FenchelError
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import Moment
from fenchel_common.wire.records import (
    round_result_from_bytes,
    round_result_to_bytes,
    round_task_from_bytes,
    round_task_to_bytes,
)
from fenchel_deploy.inprocess import halves
from fenchel_deploy.inprocess.phases import Phased, run_phases
from fenchel_server.contract import AlgorithmServer, PhaseRequest, RoundReport

Absent = Callable[[RoundId, str, ClientId], bool]
"""Whether a client fails to answer a phase of a round."""
Tampering = Callable[[bytes], bytes]

C = TypeVar("C", bound=AlgorithmClient)
S = TypeVar("S", bound=AlgorithmServer)


def nobody_is_absent(_round_id: RoundId, _phase: str, _client: ClientId) -> bool:
    return False


def changed(kind: type[Message], change: Callable[[Any], None]) -> Tampering:
    """An answer, decoded, changed and encoded again."""

    def tamper(result: bytes) -> bytes:
        message = kind.FromString(result)
        change(message)
        return message.SerializeToString()

    return tamper


def forged(kind: type[Message], change: Callable[[Any], None]) -> Tampering:
    """A task whose body is decoded, changed and encoded again; its records stay as they are."""
    alter = changed(kind, change)

    def forge(task: bytes) -> bytes:
        first, records, body = round_task_from_bytes(task)
        return round_task_to_bytes(alter(body), first=first, records=records)

    return forge


class Halves(halves.Halves[C, S]):
    """Clients and server of a run, with a record of all messages between them.

    Attributes
    ----------
    messages
        By round, phase and client: the bodies of the task and of the result, without records, nonce and confirmation.
    envelopes
        All tasks and results as they crossed the network.
    tampering
        By round, phase and client: the change to the body of the client's answer before the server gets it.
    forging
        By round, phase and client: the change to the client's task, with its records, before the client gets it.
    lenient
        Whether a client that refuses a task is absent, as in a real run; otherwise its error is raised.
    """

    def __init__(self, *args: Any, absent: Absent = nobody_is_absent, **values: Any) -> None:
        super().__init__(*args, **values)
        self.absent = absent
        self.phases: list[tuple[RoundId, str]] = []
        self.messages: list[tuple[RoundId, str, ClientId, bytes, bytes]] = []
        self.envelopes: list[bytes] = []
        self.tampering: dict[tuple[int, str, ClientId], Tampering] = {}
        self.forging: dict[tuple[int, str, ClientId], Tampering] = {}
        self.lenient = False

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        if (round_id, phase) not in self.phases[-1:]:
            self.phases.append((round_id, phase))
        if self.absent(round_id, phase, client):
            return None
        place = (round_id, phase, client)
        task = self.forging[place](body) if place in self.forging else body
        try:
            result = super().answer(round_id, phase, client, task)
        except FenchelError:
            if self.lenient:
                return None
            raise
        assert result is not None
        answer, given = round_result_from_bytes(result, client)
        self.messages.append((*place, round_task_from_bytes(task)[2], answer))
        self.envelopes += [task, result]
        if place not in self.tampering:
            return result
        altered = self.tampering[place](answer)
        return round_result_to_bytes(altered, nonce=given.nonce, confirmation=given.confirmation)

    def answers(self, round_id: RoundId, step: PhaseRequest) -> dict[ClientId, bytes]:
        """Every client's result in a phase, with nobody absent and nothing recorded or altered."""
        return {
            client: self.participants[client].answer(Moment(self.attempt, round_id, step.phase), body)
            for client, body in step.tasks.items()
        }


def half_a_round(
    run: Halves[C, S],
    round_id: int,
    *,
    until: str,
    available: frozenset[ClientId] | None = None,
    restarted: frozenset[ClientId] = frozenset(),
) -> PhaseRequest | RoundReport:
    """A round that clients answer up to a phase and the server does not finish; "" means all of them."""
    there = run.names if available is None else available
    first = run.server.begin_round(RoundId(round_id), there, restarted, attempt=run.attempt)
    if first.phase == until:
        return first
    server: Phased[RoundReport | _Reached] = _Interrupted(run.server, until)
    step = run_phases(first, server, lambda phase, client, body: run.answer(RoundId(round_id), phase, client, body))
    return step.request if isinstance(step, _Reached) else step


@dataclass(frozen=True)
class _Reached:
    request: PhaseRequest


@dataclass(frozen=True)
class _Interrupted:
    """A server half that ends as soon as it has begun the phase `until`."""

    server: AlgorithmServer
    until: str

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport | _Reached:
        step = self.server.advance(phase, results)
        return _Reached(step) if isinstance(step, PhaseRequest) and step.phase == self.until else step
