"""The metrics of a client, made of the tasks that it works on.

They are for the party's own operator: the times are exact, unlike those that the server is told.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.task import Handler, Task
from fenchel_common.errors import Refusal
from fenchel_common.identity import LiveKit
from fenchel_deploy.monitoring.endpoint import KitExpiry, process_registry

TASK_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class TaskOutcome(StrEnum):
    """How a task ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"


class ClientMetrics:
    """Metrics of one client process; `stopwatch` gives a copy of what the party has spent so far."""

    def __init__(self, kit: LiveKit, *, stopwatch: Callable[[], Stopwatch]) -> None:
        self.registry = registry = process_registry()
        self._stopwatch = stopwatch
        self._connected = Gauge(
            "fenchel_client_connected", "1 while the server sends to this party, else 0.", registry=registry
        )
        self._round = Gauge("fenchel_client_round", "The round of the last task.", registry=registry)
        self._last_task = Gauge(
            "fenchel_client_last_task_timestamp_seconds", "When the last task ended.", registry=registry
        )
        self._tasks = Counter("fenchel_client_tasks", "Tasks, by how they ended.", ["outcome"], registry=registry)
        self._task_seconds = Histogram(
            "fenchel_client_task_duration_seconds", "Time of tasks.", buckets=TASK_BUCKETS_S, registry=registry
        )
        self._seconds = Counter("fenchel_client_seconds", "Time of tasks, by kind.", ["kind"], registry=registry)
        self._bytes = Counter(
            "fenchel_client_body_bytes", "Bytes of tasks (down) and results (up).", ["way"], registry=registry
        )
        registry.register(KitExpiry(kit))
        for outcome in TaskOutcome:
            self._tasks.labels(outcome)

    def attend(self, connected: Callable[[], bool]) -> None:
        """Measures the connection from now on."""
        self._connected.set_function(lambda: float(connected()))

    def measured(self, handler: Handler) -> Handler:
        """The handler, with every task counted."""

        def handle(task: Task) -> bytes:
            before, began = self._stopwatch(), time.perf_counter()
            result, outcome = b"", TaskOutcome.FAILED
            try:
                result = handler(task)
                outcome = TaskOutcome.ANSWERED
            except Refusal:
                outcome = TaskOutcome.REFUSED
                raise
            finally:
                self._bytes.labels("down").inc(len(task.body))
                self._bytes.labels("up").inc(len(result))
                self._add(task, outcome, before, seconds=time.perf_counter() - began)
            return result

        return handle

    def _add(self, task: Task, outcome: TaskOutcome, before: Stopwatch, *, seconds: float) -> None:
        after = self._stopwatch()
        self._round.set(task.round)
        self._last_task.set_to_current_time()
        self._tasks.labels(outcome).inc()
        self._task_seconds.observe(seconds)
        known = {
            "encrypt": after.encrypt_s - before.encrypt_s,
            "decrypt": after.decrypt_s - before.decrypt_s,
            "serialise": after.serialise_s - before.serialise_s,
        }
        for kind, spent in known.items():
            self._seconds.labels(kind).inc(spent)
        self._seconds.labels("compute").inc(max(seconds - sum(known.values()), 0.0))
