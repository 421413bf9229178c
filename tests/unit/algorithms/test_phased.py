"""The skeleton of every server half: the order of rounds and phases, and clients that fail one."""

from dataclasses import replace

import pytest

from fenchel_common.algorithms.averaging.fedavg import FedavgSettings
from fenchel_common.algorithms.settings import is_due
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import RoundMetrics
from fenchel_common.records import CONFIRMATION_BYTES, NONCE_BYTES, ROUND, Moment, Record, seed_to_bytes
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.records import (
    record_from_bytes,
    record_to_bytes,
    round_result_to_bytes,
    round_task_from_bytes,
)
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import NOT_THERE, PhasedServer, RoundUnderWay, not_there
from fenchel_server.contract import PhaseRequest, RoundReport
from support.layouts import small_federation_layout

A, B = small_federation_layout().clients
LAYOUT = replace(small_federation_layout(), label_holders=frozenset({A}))
BOTH = frozenset({A, B})
NOBODY: frozenset[ClientId] = frozenset()


FIRST_RECORD = record_to_bytes(Record(Moment(1, RoundId(0), "layout"), (), seed_to_bytes(3)), LAYOUT.clients)


def enclosed(body: bytes) -> bytes:
    return round_result_to_bytes(body, nonce=bytes(NONCE_BYTES), confirmation=bytes(CONFIRMATION_BYTES))


class Echo(PhasedServer[FedavgSettings, RoundUnderWay, bytes]):
    """Two phases, in which all present clients must answer `good`."""

    def __init__(self) -> None:
        super().__init__(FedavgSettings.parse({}), LAYOUT, round_id=RoundId(4), records=[FIRST_RECORD])
        self.forgotten: list[frozenset[ClientId]] = []

    def _forget(self, clients: frozenset[ClientId]) -> None:
        self.forgotten.append(clients)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> RoundUnderWay:
        present = [client for client in self.layout.clients if client in available]
        return RoundUnderWay(id=round_id, closing=closing, present=present, absences=not_there(BOTH - available))

    def _round_choices(self) -> bytes:
        return b"choices"

    def _last_state(self, client: ClientId) -> bytes:
        return client.encode()

    def _snapshot(self) -> bytes:
        return b"state"

    def _first_request(self) -> PhaseRequest:
        return self._ask("one")

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[bytes, PhaseSums]:  # noqa: ARG002 - of the interface
        if body != b"good":
            raise InvalidInput("body: is not good")
        return bytes(body), PhaseSums()

    def _take(self, phase: str, answers: Answers[bytes]) -> PhaseRequest | RoundReport:
        current = self._current()
        self._put_on_record(self._without_failed(answers))
        if phase == "one":
            return self._ask("two")
        metrics = RoundMetrics(round=current.id, participants=tuple(current.present), absences=current.absences)
        return self._ended(metrics, None, "")

    def _ask(self, phase: str) -> PhaseRequest:
        return self._request(phase, dict.fromkeys(self._current().present, b""))


def test_a_round_is_its_phases_in_order() -> None:
    server = Echo()
    assert server.begin_round(RoundId(5), BOTH, frozenset({B, ClientId("c")}), attempt=1).phase == "one"
    assert server.forgotten == [{B}]
    every = dict.fromkeys((A, B), enclosed(b"good"))
    step = server.advance("one", every)
    assert isinstance(step, PhaseRequest)
    assert step.phase == "two"
    report = server.advance("two", every)
    assert isinstance(report, RoundReport)
    assert (report.metrics.participants, report.metrics.absences) == ((A, B), {})
    assert server.begin_round(RoundId(6), BOTH, NOBODY, attempt=1).phase == "one"


def test_rounds_and_phases_out_of_order_are_refused() -> None:
    server = Echo()
    with pytest.raises(InvalidInput, match="no round is under way"):
        server.advance("one", {})
    with pytest.raises(InvalidInput, match="round_id: 6 cannot follow round 4"):
        server.begin_round(RoundId(6), BOTH, BOTH, attempt=1)
    assert server.forgotten == []
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    with pytest.raises(InvalidInput, match="phase: 'two' is not under way, 'one' is"):
        server.advance("two", {})
    with pytest.raises(InvalidInput, match="round_id: round 5 is under way"):
        server.begin_round(RoundId(5), BOTH, BOTH, attempt=1)
    assert server.forgotten == [NOBODY]


def test_a_client_that_fails_a_phase_is_left_out_and_the_report_says_why() -> None:
    server = Echo()
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    step = server.advance("one", {A: enclosed(b"good"), B: enclosed(b"bad")})
    assert isinstance(step, PhaseRequest)
    assert list(step.tasks) == [A]
    report = server.advance("two", {B: enclosed(b"good")})
    assert isinstance(report, RoundReport)
    assert report.metrics.absences == {B: "one: rejected: body: is not good", A: "two: no result"}


def test_a_client_that_is_missing_from_the_beginning_is_named() -> None:
    server = Echo()
    assert list(server.begin_round(RoundId(5), frozenset({A}), NOBODY, attempt=1).tasks) == [A]
    server.advance("one", {A: enclosed(b"good")})
    report = server.advance("two", {A: enclosed(b"good")})
    assert isinstance(report, RoundReport)
    assert report.metrics.absences == {B: NOT_THERE}


def test_a_round_beyond_the_last_is_a_closing_one() -> None:
    server = Echo()
    server.settings = FedavgSettings.parse({"stop": {"rounds": 4}})
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    assert server._current().closing


def test_what_happens_every_few_rounds_never_happens_at_zero() -> None:
    assert [is_due(RoundId(number), 2) for number in (1, 2, 3, 4)] == [False, True, False, True]
    assert not is_due(RoundId(1), 0)


def records_of(server: Echo) -> list[Record]:
    return [record_from_bytes(data, LAYOUT.clients) for data in server.snapshot().records]


def test_every_phase_and_every_beginning_of_a_round_is_on_record() -> None:
    server = Echo()
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=7)
    server.advance("one", {A: enclosed(b"good"), B: enclosed(b"bad")})
    server.advance("two", {A: enclosed(b"good")})
    begun, one, two = records_of(server)[1:]
    assert (begun.moment, begun.given, begun.choices) == (Moment(7, RoundId(5), ROUND), (), b"choices")
    assert (one.moment, [given.party for given in one.given]) == (Moment(7, RoundId(5), "one"), [A])
    assert (two.moment, [given.party for given in two.given]) == (Moment(7, RoundId(5), "two"), [A])


def test_a_task_brings_the_records_that_its_client_lacks() -> None:
    server = Echo()
    first = server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    assert [(round_task_from_bytes(task)[0], len(round_task_from_bytes(task)[1])) for task in first.tasks.values()] == [
        (0, 2),
        (0, 2),
    ]
    second = server.advance("one", {A: enclosed(b"good")})
    assert isinstance(second, PhaseRequest)
    assert [len(round_task_from_bytes(task)[1]) for task in second.tasks.values()] == [1]
    server.advance("two", {A: enclosed(b"good")})
    third = server.begin_round(RoundId(6), BOTH, frozenset({A}), attempt=1)
    begins = {client: round_task_from_bytes(task)[0] for client, task in third.tasks.items()}
    assert begins == {A: 0, B: 0}


def test_a_client_that_failed_gets_all_records_again() -> None:
    """It may have failed because it restarted, and has no records any more."""
    server = Echo()
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    server.advance("one", dict.fromkeys((A, B), enclosed(b"good")))
    server.advance("two", {A: enclosed(b"good")})
    again = server.begin_round(RoundId(6), BOTH, NOBODY, attempt=1)
    begins = {client: round_task_from_bytes(task)[0] for client, task in again.tasks.items()}
    assert begins == {A: 3, B: 0}


def test_the_seed_of_the_first_record_is_the_seed_of_the_run() -> None:
    assert Echo().settings.seed == 3


def test_a_result_without_its_envelope_is_rejected_with_the_reason() -> None:
    server = Echo()
    server.begin_round(RoundId(5), BOTH, NOBODY, attempt=1)
    server.advance("one", {A: b"good", B: enclosed(b"good")})
    report = server.advance("two", {B: enclosed(b"good")})
    assert isinstance(report, RoundReport)
    assert report.metrics.absences[A].startswith("one: rejected: ")
