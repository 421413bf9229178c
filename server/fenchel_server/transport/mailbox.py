"""The phase under way: which clients owe a result, which are attached, and which results have come.

The mailbox is thread-safe and knows nothing of gRPC. One lock guards everything, and all waiting uses its condition. At
most one phase is under way, so a client has at most one task. A thread that has the lock of the mailbox may take the
lock of an outbox, never the other way round.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fenchel_common.dismissal import Dismissal, UnfitData
from fenchel_common.errors import FenchelError, ServerUnavailable, SessionSuperseded
from fenchel_common.ids import ClientId
from fenchel_common.wire.frames import TaskKey, public_text
from fenchel_server.rounds.transport import Absence, Exchange, Gathered, PhaseId, Receive
from fenchel_server.transport.opentask import OpenTask, seconds_left
from fenchel_server.transport.outbox import Delivery, Outbox, Verdict, Welcome


@dataclass(slots=True)
class _Attached:
    outbox: Outbox
    last_heard_s: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """The bytes of all messages since the start."""

    bytes_up: int
    bytes_down: int


class Mailbox:
    """Keeps the task of each client in the phase under way, and accepts each result once."""

    def __init__(self, *, silence_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._silence_s = silence_s
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._attached: dict[ClientId, _Attached] = {}
        self._incarnations: dict[ClientId, str] = {}
        self._key: TaskKey | None = None
        self._tasks: dict[ClientId, OpenTask] = {}
        self._receive: Receive | None = None
        self._receivers = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._receiving = 0
        self._failure: Exception | None = None
        self._last_accepted: dict[ClientId, TaskKey] = {}
        self._dismissed: str | None = None
        self._unfit: Mapping[str, UnfitData] = {}
        self._told: set[ClientId] = set()
        self._bytes_up = 0
        self._bytes_down = 0

    # Methods for connections.

    def attach(self, outbox: Outbox, *, incarnation: str, in_hand: TaskKey | None) -> None:
        """Makes `outbox` the client's connection and ends any earlier one.

        `in_hand` is the task on which the client works already, if any.
        """
        client = outbox.client
        with self._changed:
            if outbox.closed:  # the call ended before its hello was read, and would never be detached
                return
            previous = self._attached.get(client)
            self._attached[client] = _Attached(outbox, self._clock())
            known = self._incarnations.get(client)
            self._incarnations[client] = incarnation
            task = self._tasks.get(client)
            if task and not task.settled and known not in (None, incarnation) and self._key and self._key.round > 0:
                # In the set-up the party itself knows whether its new process can go on.
                task.absence = "restarted"
            awaited = in_hand is not None and self._owes(client, in_hand)
            outbox.put(Welcome(in_hand_awaited=awaited))
            if self._dismissed is not None:
                self._dismiss(outbox, self._dismissed)
            elif task and self._key and not task.settled and not awaited:
                outbox.put(Delivery(self._key, task.body))
            if previous is not None:
                previous.outbox.fail(_superseded(client, same_process=known == incarnation))
            self._changed.notify_all()

    def detach(self, outbox: Outbox) -> bool:
        """Removes a connection; False if a newer one has replaced it, or it was removed already."""
        with self._changed:
            attached = self._attached.get(outbox.client)
            if attached is None or attached.outbox is not outbox:
                return False
            del self._attached[outbox.client]
            self._changed.notify_all()
            return True

    def heard(self, outbox: Outbox) -> None:
        """Notes a sign of life."""
        with self._changed:
            attached = self._attached.get(outbox.client)
            if attached and attached.outbox is outbox:
                attached.last_heard_s = self._clock()

    def silent(self, outbox: Outbox) -> bool:
        """Whether the connection has given no sign of life for too long."""
        with self._changed:
            attached = self._attached.get(outbox.client)
            return attached is not None and attached.outbox is outbox and not self._alive(attached)

    def verdict(self, client: ClientId, key: TaskKey) -> Verdict:
        """The decision on a result for `key`, before its body is received."""
        with self._changed:
            return self._verdict(client, key)

    def result_limit(self, client: ClientId, key: TaskKey) -> int | None:
        """The most bytes of the client's result in the phase under way; None if the phase has no such limit."""
        with self._changed:
            return self._tasks[client].limit_bytes if self._owes(client, key) else None

    def hand_in(self, client: ClientId, key: TaskKey, result: bytes) -> Verdict:
        """Takes a result, if it is awaited, and returns the decision; a phase with a receiver has received it then."""
        with self._changed:
            verdict = self._verdict(client, key)
            if verdict is not Verdict.ACCEPTED:
                return verdict
            receive = self._receive
            self._tasks[client].result = result if receive is None else b""
            self._tasks[client].settled_at = self._clock()
            self._last_accepted[client] = key
            self._receiving += receive is not None
            self._changed.notify_all()
        if receive is not None:
            self._receive_now(receive, client, result)
        return verdict

    def _receive_now(self, receive: Receive, client: ClientId, result: bytes) -> None:
        failure: Exception | None = None
        try:
            with self._receivers:
                receive(client, memoryview(result))
        except Exception as error:
            failure = error  # raised by `gather`: the client has done nothing wrong
        with self._changed:
            self._failure = self._failure or failure
            self._receiving -= 1
            self._changed.notify_all()

    def give_up(self, client: ClientId, key: TaskKey, reason: str) -> Verdict:
        """Records that the client's task gets no result: the client refused it, or its result was rejected."""
        with self._changed:
            verdict = self._verdict(client, key)
            if verdict is Verdict.ACCEPTED:
                self._tasks[client].absence = public_text(reason)
                self._last_accepted[client] = key
                self._changed.notify_all()
            return verdict

    def progressed(self, client: ClientId) -> None:
        """Notes that the client works on its task, or that a piece of its task or of its result has passed."""
        with self._changed:
            if (task := self._tasks.get(client)) is not None:
                task.progressed_s = time.monotonic()

    def awaits(self, client: ClientId, key: TaskKey) -> bool:
        """Whether the client still owes the result of that task."""
        with self._changed:
            return self._owes(client, key)

    def count(self, client: ClientId, key: TaskKey | None, *, up: int = 0, down: int = 0) -> None:
        """Adds the bytes of a message to the totals, and to its task if the phase of the task is under way."""
        with self._changed:
            self._bytes_up += up
            self._bytes_down += down
            task = self._tasks.get(client) if key is not None and key == self._key else None
            if task:
                task.bytes_up += up
                task.bytes_down += down

    # Methods for the round driver.

    def gather(
        self,
        phase: PhaseId,
        tasks: Mapping[ClientId, bytes],
        *,
        deadline_s: float,
        limits: Mapping[ClientId, int] | None = None,
        receive: Receive | None = None,
    ) -> Gathered:
        """Begins a phase, waits until every task is settled or the open ones stand still, and ends the phase.

        Results that came in time are received even if that takes longer.
        """
        # A condition waits by the monotonic clock.
        started, began_s = self._clock(), time.monotonic()
        with self._changed:
            if self._key is not None:
                raise RuntimeError(f"phase {self._key} is under way; phases cannot overlap")
            self._key = TaskKey(run=phase.run, round=phase.round, phase=phase.phase, attempt=phase.attempt)
            allowed = limits or {}
            self._tasks = {client: OpenTask(body, allowed.get(client)) for client, body in tasks.items()}
            self._receive = receive
            try:
                for client, task in self._tasks.items():
                    if self._dismissed is not None:
                        task.absence = f"dismissed: {self._dismissed}"
                    elif client in self._attached:
                        self._attached[client].outbox.put(Delivery(self._key, task.body))
                self._wait_for_results(began_s, deadline_s)
                gathered = self._outcome(began_s, deadline_s, started)
                self._changed.wait_for(lambda: not self._receiving)
                if self._failure is not None:
                    raise self._failure
                return gathered
            finally:
                self._end_phase()

    def present(self) -> frozenset[ClientId]:
        """The clients that are attached and have given a sign of life lately."""
        with self._changed:
            return self._present()

    def owed(self) -> Mapping[ClientId, PhaseId]:
        """The clients that owe a result of the phase under way, and that phase."""
        with self._changed:
            key = self._key
            if key is None:
                return {}
            phase = PhaseId(key.run, key.round, key.phase, key.attempt)
            return {client: phase for client, task in self._tasks.items() if not task.settled}

    def wait_for(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """Waits until all of `clients` are present, or for `timeout_s`; returns those of them that are present then."""
        with self._changed:
            self._changed.wait_for(lambda: clients <= self._present(), timeout=timeout_s)
            return clients & self._present()

    def incarnation(self, client: ClientId) -> str | None:
        with self._changed:
            return self._incarnations.get(client)

    def traffic(self) -> Traffic:
        with self._changed:
            return Traffic(bytes_up=self._bytes_up, bytes_down=self._bytes_down)

    def dismiss(self, reason: str, *, unfit: Mapping[str, UnfitData], timeout_s: float) -> None:
        """Tells all clients, also those that attach later, that all runs are over; waits for the connections to end."""
        with self._changed:
            self._dismissed, self._unfit = reason, unfit
            for task in self._tasks.values():
                if not task.settled:
                    task.absence = f"dismissed: {reason}"
            for attached in self._attached.values():
                self._dismiss(attached.outbox, reason)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._attached, timeout=timeout_s)

    def wait_dismissed(self, clients: frozenset[ClientId], *, timeout_s: float) -> frozenset[ClientId]:
        """Waits until all of `clients` were told of the dismissal, or for `timeout_s`; returns those not told yet."""
        with self._changed:
            self._changed.wait_for(lambda: clients <= self._told and not self._attached, timeout=timeout_s)
            return clients - self._told

    # The callers of all methods below have the lock.

    def _dismiss(self, outbox: Outbox, reason: str) -> None:
        outbox.withdraw()
        outbox.put(Dismissal(reason, self._unfit.get(outbox.client)))
        outbox.close()
        self._told.add(outbox.client)

    def _alive(self, attached: _Attached) -> bool:
        return self._clock() - attached.last_heard_s <= self._silence_s

    def _present(self) -> frozenset[ClientId]:
        return frozenset(client for client, attached in self._attached.items() if self._alive(attached))

    def _owes(self, client: ClientId, key: TaskKey) -> bool:
        task = self._tasks.get(client)
        return key == self._key and task is not None and not task.settled

    def _verdict(self, client: ClientId, key: TaskKey) -> Verdict:
        if self._owes(client, key):
            return Verdict.ACCEPTED
        return Verdict.DUPLICATE if self._last_accepted.get(client) == key else Verdict.NOT_OPEN

    def _wait_for_results(self, began_s: float, deadline_s: float) -> None:
        tasks = self._tasks.values()
        while (left_s := seconds_left(tasks, time.monotonic(), began_s=began_s, deadline_s=deadline_s)) > 0:
            self._changed.wait(left_s)

    def _outcome(self, began_s: float, deadline_s: float, started: float) -> Gathered:
        ended = self._clock()
        absences = {}
        for client, task in self._tasks.items():
            if not task.settled:
                state = "" if client in self._present() else " (not connected)"
                reason = task.absence_at(time.monotonic(), began_s=began_s, deadline_s=deadline_s)
                task.absence = f"{reason}{state}"
            if task.absence is not None:
                absences[client] = Absence(client, task.absence)
        return Gathered(
            results={client: task.result for client, task in self._tasks.items() if task.result is not None},
            absences=absences,
            bytes_up=sum(task.bytes_up for task in self._tasks.values()),
            bytes_down=sum(task.bytes_down for task in self._tasks.values()),
            seconds=ended - started,
            exchanges={
                client: Exchange(
                    (ended if task.settled_at is None else task.settled_at) - started, task.bytes_up, task.bytes_down
                )
                for client, task in self._tasks.items()
            },
        )

    def _end_phase(self) -> None:
        for client in self._tasks:
            if client in self._attached:
                self._attached[client].outbox.withdraw()
        self._key = None
        self._tasks = {}
        self._receive = self._failure = None


def _superseded(client: ClientId, *, same_process: bool) -> FenchelError:
    # A connection that a process has given up may reach the server after its next one: it may connect again.
    if same_process:
        return ServerUnavailable(f"another connection of the same process of {client} took over")
    return SessionSuperseded(f"another process of {client} took over; stop it, or this one: they use the same kit")
