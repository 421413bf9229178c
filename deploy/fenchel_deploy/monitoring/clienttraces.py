"""The spans of a client: one for each task that it works on."""

from collections.abc import Callable

from opentelemetry.trace import StatusCode

from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.task import Handler, Task
from fenchel_common.wire.frames import TaskKey
from fenchel_deploy.monitoring.tracer import Attributes, Tracer, add_attributes, span_of_phase


def traced(handler: Handler, tracer: Tracer, party: str, *, stopwatch: Callable[[], Stopwatch]) -> Handler:
    """The handler, with a span for every task; `stopwatch` gives a copy of what the party has spent so far."""

    def handle(task: Task) -> bytes:
        phase = span_of_phase(TaskKey(task.run, task.round, task.phase, task.attempt))
        place: Attributes = {"party": party, "run": task.run, "round": task.round, "phase": task.phase}
        span, before, result = tracer.begin("task", phase, place), stopwatch(), b""
        try:
            result = handler(task)
        except Exception:
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            after = stopwatch()
            spent = {
                "encrypt_s": after.encrypt_s - before.encrypt_s,
                "decrypt_s": after.decrypt_s - before.decrypt_s,
                "serialise_s": after.serialise_s - before.serialise_s,
            }
            add_attributes(span, {**spent, "bytes_up": len(result), "bytes_down": len(task.body)})
            span.end()
        return result

    return handle
