"""A collector of OpenTelemetry traces: it takes what processes send by OTLP over HTTP."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WAIT_S = 60.0


@dataclass(frozen=True)
class Seen:
    """A span as it was sent, with the name of the service that sent it."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    began_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, Any]


class Collector:
    """What has come so far: the spans, and all bytes as they came."""

    def __init__(self) -> None:
        self.address = ""
        self.bodies: list[bytes] = []
        self.spans: list[Seen] = []
        self._changed = threading.Condition()

    def take(self, body: bytes) -> None:
        with self._changed:
            self.bodies.append(body)
            self.spans += _spans(body)
            self._changed.notify_all()

    def wait_for(self, arrived: Callable[[list[Seen]], bool]) -> None:
        """Returns when what has come fulfils the condition."""
        with self._changed:
            assert self._changed.wait_for(lambda: arrived(self.spans), WAIT_S), self.spans


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _spans(body: bytes) -> Iterator[Seen]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Seen(
                service=service,
                name=span.name,
                trace=span.trace_id,
                id=span.span_id,
                parent=span.parent_span_id,
                began_ns=span.start_time_unix_nano,
                ended_ns=span.end_time_unix_nano,
                failed=span.status.code == span.status.STATUS_CODE_ERROR,
                attributes=_attributes(span.attributes),
            )


def _attributes(entries: Any) -> dict[str, Any]:
    return {entry.key: getattr(entry.value, str(entry.value.WhichOneof("value"))) for entry in entries}
