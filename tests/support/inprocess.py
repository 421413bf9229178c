"""A transport without a network: calls the clients' handlers directly and counts what a network would carry."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

from fenchel_client.session import answer
from fenchel_client.task import Task
from fenchel_common.dismissal import UnfitData
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.frames import TaskKey, refusal_frame, result_frames, task_frames
from fenchel_server.rounds.transport import Absence, Gathered, PhaseId, Receive

AbsenceHook = Callable[[PhaseId, ClientId], str | None]


class InProcessTransport:
    """Implements `Transport`; deterministic, one handler after another in the order of the tasks.

    `absent` decides, for each phase and client, whether the client is absent, and gives the reason. An absent client
    gets its task and never answers: the handler is not called. `after_phase` is called with each finished phase.
    """

    def __init__(
        self,
        handlers: Mapping[ClientId, Callable[[Task], bytes]],
        *,
        absent: AbsenceHook = lambda _phase, _client: None,
        after_phase: Callable[[PhaseId], None] = lambda _phase: None,
    ) -> None:
        self.handlers = dict(handlers)
        self.absent = absent
        self.after_phase = after_phase
        self.phases: list[PhaseId] = []
        self.bytes_up = 0
        self.bytes_down = 0
        self.dismissed: str | None = None
        self._away: set[ClientId] = set()
        self._incarnations: Counter[ClientId] = Counter()

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        started = time.monotonic()
        self.phases.append(phase)
        key = TaskKey(run=phase.run, round=phase.round, phase=phase.phase, attempt=phase.attempt)
        results: dict[ClientId, bytes] = {}
        absences: dict[ClientId, Absence] = {}
        up = down = 0
        for client, body in tasks.items():
            if client in self._away or client not in self.handlers:
                absences[client] = Absence(client, f"no result within {deadline_s:g} s (not connected)")
                continue
            down += sum(frame.ByteSize() for frame in task_frames(key, body))
            if (reason := self.absent(phase, client)) is not None:
                absences[client] = Absence(client, reason)
                continue
            task = Task(run=phase.run, round=phase.round, phase=phase.phase, body=body, attempt=phase.attempt)
            result, refusal = answer(self.handlers[client], task)
            if result is None:
                up += refusal_frame(key, refusal).ByteSize()
                absences[client] = Absence(client, f"refused: {refusal}")
                continue
            up += sum(frame.ByteSize() for frame in result_frames(key, result))
            limit = None if limits is None else limits.get(client)
            if limit is not None and len(result) > limit:
                absences[client] = Absence(client, f"rejected: {len(result)} bytes, over the limit of {limit} bytes")
                continue
            results[client] = result if receive is None else b""
            if receive is not None:
                receive(client, memoryview(result))
        self.bytes_up += up
        self.bytes_down += down
        self.after_phase(phase)
        return Gathered(results, absences, up, down, time.monotonic() - started)

    def present(self) -> frozenset[ClientId]:
        return frozenset(self.handlers.keys() - self._away)

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:  # noqa: ARG002 - of the interface
        return clients & self.present()

    def incarnation(self, client: ClientId) -> str | None:
        return str(self._incarnations[client]) if client in self.handlers else None

    def port_bytes(self) -> None:
        """There is no port."""

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData] | None = None) -> None:
        del unfit
        self.dismissed = reason

    def round_trips(self, round_id: int) -> int:
        """How many phases, each one round trip, a round took."""
        return sum(phase.round == RoundId(round_id) for phase in self.phases)

    def leave(self, client: ClientId) -> None:
        """From now on the client is not connected."""
        self._away.add(client)

    def come_back(self, client: ClientId) -> None:
        """The client connects again, with the state that it had."""
        self._away.discard(client)

    def restart(self, client: ClientId, handler: Callable[[Task], bytes]) -> None:
        """The client connects as a new process, which has lost its state."""
        self.handlers[client] = handler
        self._incarnations[client] += 1
        self._away.discard(client)
