"""What watches the tasks of a client beside its log: metrics and traces, whose packages are loaded if wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fenchel_client.party import Party
from fenchel_client.session import Session
from fenchel_client.task import Handler
from fenchel_common.identity import Address, LiveKit


@contextmanager
def measured(
    address: Address | None, kit: LiveKit, party: Party, handler: Handler
) -> Iterator[tuple[Handler, Callable[[Session], None]]]:
    """The handler, and what is told of the session; with an address, both feed the metrics served there."""
    if address is None:
        yield handler, lambda _: None
        return
    # A client without metrics needs neither the memory nor the time to load these.
    from fenchel_deploy.monitoring.clientmetrics import ClientMetrics
    from fenchel_deploy.monitoring.endpoint import metrics_served

    metrics = ClientMetrics(kit, stopwatch=lambda: party.spent)
    with metrics_served(metrics.registry, address):
        yield metrics.measured(handler), lambda session: metrics.attend(lambda: session.connected)


@contextmanager
def traced(wanted: bool, party: Party, handler: Handler, *, name: str) -> Iterator[Handler]:
    """The handler; if traces are wanted, with a span for every task."""
    if not wanted:
        yield handler
        return
    # A client without traces needs neither the packages nor the memory.
    from fenchel_deploy.monitoring import clienttraces
    from fenchel_deploy.monitoring.tracer import tracing

    with tracing("fenchel-client") as tracer:
        yield clienttraces.traced(handler, tracer, name, stopwatch=lambda: party.spent)
