"""The order in which answers come changes nothing, and a malformed answer is as good as none, in every family."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fenchel_common.data.partition import partition
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.records import round_result_from_bytes, round_result_to_bytes
from fenchel_server.algorithms.phased import PhasedServer
from fenchel_server.contract import PhaseRequest, RoundReport
from support import corrective, hyfdca
from support.averaging import Averaging
from support.halves import Halves
from support.problems import problem

ROUNDS = 3

FAMILIES: dict[str, Callable[[], Halves[Any, Any]]] = {
    "corrective": lambda: corrective.simulation(problem(**corrective.CASE)),
    "hyfdca": lambda: hyfdca.simulation(problem(**hyfdca.CASE), h=0.5, stop={"gap": None}),
    "averaging": lambda: Averaging.of(
        "fedavg", partition(problem(**hyfdca.CASE).data, grid=(2, 2)), {"measure_every": 1}
    ),
    "averaging with kept vectors": lambda: Averaging.of(
        "dualfl", partition(problem(**hyfdca.CASE).data, grid=(4, 1)), {"measure_every": 1}
    ),
}

Step = PhaseRequest | RoundReport
Server = PhasedServer[Any, Any, Any]


def twins(run: Halves[Any, Any], round_id: int) -> tuple[Server, Server, PhaseRequest]:
    """Two servers restored from the state of the run's server, and the first phase of a round, the same of both."""
    saved, run.attempt = run.server.snapshot(), run.attempt + 1
    run.server, other = (
        type(run.server).restore(saved, settings=run.settings, layout=run.alignment.federation, key=run.key)
        for _ in range(2)
    )
    first, second = (
        server.begin_round(RoundId(round_id), run.names, frozenset(), attempt=run.attempt)
        for server in (run.server, other)
    )
    assert first == second
    return run.server, other, first


def as_asked(server: Server, phase: str, results: Mapping[ClientId, bytes]) -> Step:
    return server.advance(phase, results)


def last_first(server: Server, phase: str, results: Mapping[ClientId, bytes]) -> Step:
    for client in reversed(list(results)):
        server.receive(phase, client, results[client])
    return server.advance(phase, {})


def without_the_last(server: Server, phase: str, results: Mapping[ClientId, bytes]) -> Step:
    return server.advance(phase, {client: results[client] for client in list(results)[:-1]})


def with_the_last_malformed(server: Server, phase: str, results: Mapping[ClientId, bytes]) -> Step:
    """The last answer is well-formed up to its last byte."""
    for client, result in results.items():
        body, given = round_result_from_bytes(result, client)
        cut = round_result_to_bytes(body[:-1], nonce=given.nonce, confirmation=given.confirmation)
        server.receive(phase, client, cut if client == list(results)[-1] else result)
    return server.advance(phase, {})


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_arrival_changes_no_task_no_record_and_no_state(family: str) -> None:
    run = FAMILIES[family]()
    for round_id in range(1, ROUNDS + 1):
        server, other, step = twins(run, round_id)
        while True:
            answers = run.answers(RoundId(round_id), step)
            following = as_asked(server, step.phase, answers)
            assert last_first(other, step.phase, answers) == following
            if isinstance(following, RoundReport):
                break
            step = following
        assert server.snapshot() == other.snapshot()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_malformed_answer_counts_as_little_as_none(family: str) -> None:
    run = FAMILIES[family]()
    run.round()
    server, other, step = twins(run, 2)
    answers = run.answers(RoundId(2), step)
    absent = without_the_last(server, step.phase, answers)
    malformed = with_the_last_malformed(other, step.phase, answers)
    if isinstance(absent, RoundReport) and isinstance(malformed, RoundReport):
        ((client, reason),) = malformed.metrics.absences.items()
        assert client == list(answers)[-1]
        assert "rejected" in reason
        malformed = replace(malformed, metrics=replace(malformed.metrics, absences=absent.metrics.absences))
    assert malformed == absent
