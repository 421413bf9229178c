"""Traces for OpenTelemetry: how long runs, rounds, phases and the parties' tasks took, sent to a collector by OTLP.

A run is one trace. The server has a span for the run, in it one for each round, in a round one for each phase, and in a
phase one for each party's task. A party has a span for each task, in the server's span of the phase. Nothing about
traces travels between server and parties: both compute the trace's id and the id of a phase's span from the run's id.
So their spans belong together wherever they are brought together.

A span has ids of runs, names of phases and parties, numbers of rounds, seconds and bytes. It has no words of an error,
which may name what is in a party's table.
"""

import hashlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

from fenchel_common.wire.frames import TaskKey

TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
LAST_SPANS_S: Final = 3.0
"""How long a process waits at its end until its last spans are sent."""

log = logging.getLogger(__name__)

Attributes = Mapping[str, str | int | float]


class Tracer:
    """Makes the spans of one process. One thread makes them; another one sends them."""

    def __init__(self, provider: TracerProvider, ids: "DerivedIds") -> None:
        self._tracer = provider.get_tracer("fenchel", version("fenchel"))
        self._ids = ids

    def begin_run(self, run: str, attributes: Attributes) -> Span:
        """The span of a run, at its server."""
        self._ids.next_trace = _trace_id(run)
        return self._tracer.start_span("run", context=Context(), attributes=_named({"run": run, **attributes}))

    def begin_phase(self, phase: TaskKey, parent: Span) -> Span:
        """The span of a phase, at its server."""
        self._ids.next_span = _phase_span_id(phase)
        return self.begin("phase", parent, {"phase": phase.phase, "attempt": phase.attempt})

    def begin(self, name: str, parent: Span, attributes: Attributes, *, at_ns: int | None = None) -> Span:
        """A span inside another one; `at_ns` is when it began, if not now."""
        context = trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context=context, attributes=_named(attributes), start_time=at_ns)


class DerivedIds(RandomIdGenerator):
    """Random ids, but for the next trace or span if its id was set."""

    def __init__(self) -> None:
        self.next_trace: int | None = None
        self.next_span: int | None = None

    def generate_trace_id(self) -> int:
        chosen, self.next_trace = self.next_trace, None
        return super().generate_trace_id() if chosen is None else chosen

    def generate_span_id(self) -> int:
        chosen, self.next_span = self.next_span, None
        return super().generate_span_id() if chosen is None else chosen


@contextmanager
def tracing(service: str) -> Iterator[Tracer]:
    """Spans are sent while the context lasts, and the last of them when it ends.

    The standard variables of the environment choose the collector and all else: OTEL_EXPORTER_OTLP_ENDPOINT above all.
    A run never waits for the collector: what cannot be sent is dropped.
    """
    if not log.isEnabledFor(logging.DEBUG):
        # These packages tell the words of sockets for each try; `_Exporter` tells the fact once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    ids = DerivedIds()
    name = os.environ.get(OTEL_SERVICE_NAME, service)
    resource = Resource.create({SERVICE_NAME: name, SERVICE_VERSION: version("fenchel")})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Exporter()))
    try:
        yield Tracer(provider, ids)
    finally:
        closing = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(LAST_SPANS_S)
        if closing.is_alive():
            log.warning("traces: the collector did not take the last spans within %g s", LAST_SPANS_S)


class _Exporter(OTLPSpanExporter):
    """Sends spans, and says once when the collector begins to fail."""

    def __init__(self) -> None:
        super().__init__()
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("traces: the collector does not take spans; they are dropped until it does")
        self._failing = failing
        return result


def span_of_phase(phase: TaskKey) -> Span:
    """The server's span of a phase, as parties refer to it."""
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return NonRecordingSpan(
        SpanContext(_trace_id(phase.run), _phase_span_id(phase), is_remote=True, trace_flags=sampled)
    )


def add_attributes(span: Span, attributes: Attributes) -> None:
    """Adds what is known of a span at its end."""
    span.set_attributes(_named(attributes))


def _trace_id(run: str) -> int:
    return _derived(f"fenchel trace {run}", TRACE_ID_BYTES)


def _phase_span_id(phase: TaskKey) -> int:
    return _derived(f"fenchel phase {phase}", SPAN_ID_BYTES)


def _derived(text: str, width: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:width], "big")


def _named(attributes: Attributes) -> dict[str, str | int | float]:
    return {f"fenchel.{name}": value for name, value in attributes.items()}
