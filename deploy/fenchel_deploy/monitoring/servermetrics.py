"""The metrics of a server, made of its events and of its transport."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fenchel_common.identity import LiveKit
from fenchel_common.ids import ClientId
from fenchel_deploy.monitoring.endpoint import KitExpiry, process_registry
from fenchel_server.rounds.ledger import Kind
from fenchel_server.store.base import ENDED
from fenchel_server.transport.mailbox import Traffic

ROUND_BUCKETS_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
PARTY_KINDS: Final = ("encrypt", "decrypt", "serialise", "compute", "wire", "wait")
"""A party's seconds in the costs of a round are under these names with `_s` added."""


class Attended(Protocol):
    """The part of a listener that is measured."""

    def present(self) -> frozenset[ClientId]: ...

    def traffic(self) -> Traffic: ...


class ServerMetrics:
    """Metrics of one server process; `observe` takes its events, `attend` its listener."""

    def __init__(self) -> None:
        self.registry = registry = process_registry()
        self._active = _gauge("run_active", "1 while the server works on a run, else 0.", registry)
        self._round = _gauge("round", "The last committed round of the run under way.", registry)
        self._progress = _gauge(
            "last_progress_timestamp_seconds", "When a phase last began or a round was last committed.", registry
        )
        self._gap = _gauge("duality_gap", "P − D of the last round that was certified.", registry)
        self._target = _gauge("duality_gap_target", "The gap at which the run stops.", registry)
        self._primal = _gauge("primal_objective", "P(w) of the last round that measured its model.", registry)
        self._accuracy = _gauge("accuracy_ratio", "Correct predictions ÷ samples, of that round.", registry)
        self._ended = _counter("runs_ended", "Runs that ended, by status.", registry, "status")
        self._phases = _counter("phases", "Phases that were begun, by name.", registry, "phase")
        self._round_seconds = Histogram(
            "fenchel_server_round_duration_seconds",
            "Wall-clock time of committed rounds.",
            buckets=ROUND_BUCKETS_S,
            registry=registry,
        )
        self._seconds = _counter("round_seconds", "Time of committed rounds, by where it went.", registry, "kind")
        self._party_seconds = _counter(
            "party_seconds", "Time of committed rounds as each party spent it.", registry, "party", "kind"
        )
        self._absences = _counter("party_absences", "Rounds that a party was left out of.", registry, "party")
        for status in sorted(ENDED):
            self._ended.labels(status)
        for kind in Kind:
            self._seconds.labels(kind)

    def attend(self, listener: Attended, kit: LiveKit) -> None:
        """Measures presence and traffic from now on."""
        for party in kit.look().roster.names:
            self._absences.labels(party)
        self.registry.register(KitExpiry(kit))
        self.registry.register(_Attendance(listener, kit))

    def observe(self, event: Mapping[str, Any]) -> None:
        """Takes an event of the server."""
        match event["event"]:
            case "waiting":
                self._active.set(1)
            case "phase":
                self._active.set(1)
                self._progress.set_to_current_time()
                self._phases.labels(event["phase"]).inc()
            case "round":
                self._progress.set_to_current_time()
                self._add_round(event)
            case "ended":
                self._active.set(0)
                self._ended.labels(event["status"]).inc()

    def _add_round(self, event: Mapping[str, Any]) -> None:
        self._round.set(event["round"])
        self._round_seconds.observe(event["seconds"])
        for gauge, name in (
            (self._gap, "gap"),
            (self._target, "gap_target"),
            (self._primal, "primal"),
            (self._accuracy, "accuracy"),
        ):
            if event[name] is not None:
                gauge.set(float(event[name]))
        for kind in Kind:
            self._seconds.labels(kind).inc(event["costs"]["seconds"].get(kind, 0.0))
        for party, costs in event["costs"]["clients"].items():
            for name in PARTY_KINDS:
                self._party_seconds.labels(party, name).inc(costs[f"{name}_s"])
        for party in event["absences"]:
            self._absences.labels(party).inc()


class _Attendance(Collector):
    """Which parties are connected now, and the bytes of all messages so far."""

    def __init__(self, listener: Attended, kit: LiveKit) -> None:
        self._listener = listener
        self._kit = kit

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        present = self._listener.present()
        connected = GaugeMetricFamily(
            "fenchel_server_party_connected", "1 if the party is connected now, else 0.", labels=["party"]
        )
        for party in self._kit.look().roster.names:
            connected.add_metric([party], float(party in present))
        yield connected
        traffic = self._listener.traffic()
        moved = CounterMetricFamily(
            "fenchel_server_message_bytes", "Bytes of messages from (up) and to (down) the parties.", labels=["way"]
        )
        moved.add_metric(["up"], traffic.bytes_up)
        moved.add_metric(["down"], traffic.bytes_down)
        yield moved


def _gauge(name: str, meaning: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(f"fenchel_server_{name}", meaning, registry=registry)


def _counter(name: str, meaning: str, registry: CollectorRegistry, *labels: str) -> Counter:
    return Counter(f"fenchel_server_{name}", meaning, labels, registry=registry)
