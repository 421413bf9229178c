"""Spans of tasks that end badly, and collectors that do not answer."""

import logging
import socket
from collections.abc import Iterator

import pytest

from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.task import Task
from fenchel_common.errors import Refusal
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_deploy.monitoring import tracer
from fenchel_deploy.monitoring.clienttraces import traced
from fenchel_deploy.monitoring.servertraces import ServerTraces
from fenchel_deploy.monitoring.tracer import tracing
from fenchel_server.rounds.transport import PhaseId
from support.collector import Collector, collecting
from support.inprocess import InProcessTransport

RUN = RunId("run-1")
BEGINS = {"event": "begins", "run": RUN, "algorithm": "hyfdca", "privacy": "sealed", "cipher": "paillier"}
PHASE = PhaseId(RUN, RoundId(3), "primal", 2)
NORTH, SOUTH = ClientId("north"), ClientId("south")
HER_ROW = "row 7 of her table"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.address)
        yield running


def refuse(_: Task) -> bytes:
    raise Refusal(HER_ROW, public_reason="no")


def test_a_task_that_fails_and_a_party_that_is_absent_are_marked_and_no_words_of_an_error_are_sent(
    collector: Collector,
) -> None:
    with tracing("a-client") as client, tracing("the-server") as server:
        south = traced(refuse, client, SOUTH, stopwatch=Stopwatch)
        traces = ServerTraces(server)
        transport = InProcessTransport({NORTH: lambda _: b"x", SOUTH: south})
        traces.observe(BEGINS)
        traces.around(transport).gather(PHASE, dict.fromkeys((NORTH, SOUTH), b""), deadline_s=1.0)
        traces.end()
    tasks = {(span.service, span.attributes["fenchel.party"]): span for span in collector.spans if span.name == "task"}
    failed = {who: span.failed for who, span in tasks.items()}
    assert failed == {("the-server", NORTH): False, ("the-server", SOUTH): True, ("a-client", SOUTH): True}
    assert len({span.parent for span in tasks.values()}) == 1, "both sides name the same phase"
    assert [span.attributes["fenchel.status"] for span in collector.spans if span.name == "run"] == ["interrupted"]
    assert not any(HER_ROW.encode() in body for body in collector.bodies)


def test_a_collector_that_refuses_is_told_of_once_and_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    with caplog.at_level(logging.INFO), tracing("the-server") as spans:
        for run in ("run-1", "run-2"):
            spans.begin_run(run, {}).end()
    assert caplog.messages == ["traces: the collector does not take spans; they are dropped until it does"]


def test_a_process_ends_although_its_collector_takes_the_spans_and_never_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracer, "LAST_SPANS_S", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with tracing("the-server") as spans:
            spans.begin_run("run-1", {}).end()
    assert caplog.messages == ["traces: the collector did not take the last spans within 0.1 s"]
