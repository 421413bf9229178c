"""What watches the runs of a server beside its log: metrics and traces, whose packages are loaded if wanted."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fenchel_common.identity import Address, LiveKit
from fenchel_server import transport
from fenchel_server.app import Around, Listen

Observe = Callable[[Mapping[str, Any]], None]


@contextmanager
def measured(
    address: Address | None, listen: Callable[..., transport.GrpcTransport]
) -> Iterator[tuple[Listen, Observe]]:
    """How the server listens and who observes its events; with an address, both feed the metrics served there."""
    if address is None:
        yield listen, lambda _: None
        return
    # A server without metrics needs neither the memory nor the time to load these.
    from fenchel_deploy.monitoring.endpoint import metrics_served
    from fenchel_deploy.monitoring.servermetrics import ServerMetrics

    metrics = ServerMetrics()

    def listen_measured(kit: LiveKit, *, address: Address) -> transport.GrpcTransport:
        listener = listen(kit, address=address)
        metrics.attend(listener, kit)
        return listener

    with metrics_served(metrics.registry, address):
        yield listen_measured, metrics.observe


@contextmanager
def traced(wanted: bool) -> Iterator[tuple[Around, Observe]]:
    """What sees the phases of runs and who observes the server's events, if traces are wanted."""
    if not wanted:
        yield lambda transport: transport, lambda _: None
        return
    # A server without traces needs neither the packages nor the memory.
    from fenchel_deploy.monitoring.servertraces import ServerTraces
    from fenchel_deploy.monitoring.tracer import tracing

    with tracing("fenchel-server") as tracer:
        traces = ServerTraces(tracer)
        try:
            yield traces.around, traces.observe
        finally:
            traces.end()
