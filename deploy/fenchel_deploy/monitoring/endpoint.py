"""The HTTP port at which Prometheus reads the metrics of a process, and the metrics that every process has."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Info, ProcessCollector, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, LiveKit

log = logging.getLogger(__name__)


@contextmanager
def metrics_served(registry: CollectorRegistry, address: Address) -> Iterator[None]:
    """Serves the metrics at `address` until the context ends; raises `InvalidInput` if it cannot listen there."""
    try:
        server, thread = start_http_server(address.port, address.host, registry)
    except OSError as error:
        raise InvalidInput(f"--metrics: cannot listen at {address}: {error.strerror}") from error
    try:
        log.info("metrics at http://%s/metrics", Address(address.host, server.server_port))
        if not address.loopback:
            log.warning("metrics: whoever reaches %s can read them; there is no password and no TLS", address)
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def process_registry() -> CollectorRegistry:
    """A registry with the metrics of the process itself: processor time, memory, version."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("fenchel_build", "The version of Fenchel.", registry=registry).info({"version": version("fenchel")})
    return registry


class KitExpiry(Collector):
    """Until when the certificate and the roster in use are valid."""

    def __init__(self, kit: LiveKit) -> None:
        self._kit = kit

    def collect(self) -> Iterator[GaugeMetricFamily]:
        kit = self._kit.look()
        yield GaugeMetricFamily(
            "fenchel_certificate_expiry_timestamp_seconds",
            "When the certificate in use expires, in seconds since 1970.",
            value=kit.certificate.not_after.timestamp(),
        )
        yield GaugeMetricFamily(
            "fenchel_roster_expiry_timestamp_seconds",
            "When the roster in use expires, in seconds since 1970.",
            value=kit.roster.not_after.timestamp(),
        )
