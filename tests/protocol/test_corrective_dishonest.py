"""Corrective HyFDCA with a server that withholds what a party needs, or tells it at the wrong time."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fenchel_client.algorithms.corrective import primal
from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.corrective.primal import GAP_TOLERANCE
from fenchel_client.algorithms.corrective.settlement import settle
from fenchel_common.algorithms.corrective.messages import DualTask
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.records import Record
from fenchel_server import cohorts
from fenchel_server.algorithms.corrective import ending
from fenchel_server.algorithms.corrective import server as corrective_server
from fenchel_server.algorithms.corrective.ending import RoundEnd, end_round
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer
from fenchel_server.algorithms.corrective.problems import CorrectiveRounds
from fenchel_server.algorithms.corrective.round import CorrectiveRound, dual_tasks
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.algorithms.intake import Answers
from fenchel_server.contract import PhaseRequest
from support.corrective import CASE, FIRST, LAST, SECOND, combinations_of, error_of, halves_of, settings, simulation
from support.forgeries import with_records
from support.halves import half_a_round
from support.problems import Problem, problem
from support.simulation import Simulation

THIRD = ClientId("party-02")
HORIZONTAL = (4, 1)
LARGER = {**CASE, "rows": 120}


def telling_otherwise(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[CorrectiveRound, ClientId, DualTask], DualTask]
) -> None:
    """From now on the server sends other tasks of `local_dual`, and does not care that parties disagree."""

    def dishonest(current: CorrectiveRound, *args: Any, **values: Any) -> Mapping[ClientId, DualTask]:
        tasks = dual_tasks(current, *args, **values)
        return {client: change(current, client, task) for client, task in tasks.items()}

    monkeypatch.setattr(corrective_server, "dual_tasks", dishonest)
    ignoring_disagreement(monkeypatch)


def ignoring_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (corrective_server, ending):
        monkeypatch.setattr(module, "check_agree", lambda _values, _message: None)


def half_and_whole_rows(monkeypatch: pytest.MonkeyPatch) -> Simulation:
    """All hold the features of FIRST, which holds half of those that SECOND does; nobody shares samples."""
    monkeypatch.setattr(cohorts, "check_linked", lambda *_: None)
    case = problem(**LARGER)
    X = np.asarray(case.data.X)
    parts = [(slice(60), slice(4)), (slice(60, 120), slice(8))]
    shards = [
        Shard(tuple(case.ids[rows]), case.data.features[columns], X[rows, columns], case.data.y[rows])
        for rows, columns in parts
    ]
    return Simulation.of(shards, settings(case))


@pytest.mark.parametrize("deprived", [FIRST, SECOND])
def test_products_that_are_on_record_cannot_be_withheld(monkeypatch: pytest.MonkeyPatch, deprived: ClientId) -> None:
    """Not even from a party that has whole rows: the others' models are no part of its own products."""
    run = half_and_whole_rows(monkeypatch)
    run.run(2)
    telling_otherwise(monkeypatch, lambda _, client, task: replace(task, products=None) if client == deprived else task)
    with pytest.raises(InvalidInput, match="products: are missing"):
        run.round()


def test_the_phase_of_products_cannot_be_left_out_for_a_party_all_of_whose_features_everybody_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others hold features that it does not have, which the number of features in its layout tells it."""
    run = half_and_whole_rows(monkeypatch)
    run.run(2)
    monkeypatch.setattr(FederationLayout, "partition", "horizontal")
    run.lenient = True
    absences = run.round().metrics.absences
    assert absences == {FIRST: "local_dual: no result"}, "only SECOND has whole rows"


def test_a_round_does_not_go_on_from_the_one_that_was_begun_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a party would work on old points, and P and D of nothing would leave in clear."""
    run = simulation(problem(**CASE), HORIZONTAL)
    run.run(3)
    telling_otherwise(monkeypatch, lambda _, client, task: replace(task, round_start=None) if client == THIRD else task)
    with pytest.raises(InvalidInput, match="round_start"):
        run.round()
    assert not [at for at, phase, *_ in run.messages if (at, phase) == (4, "primal")]


def test_a_round_is_not_begun_a_second_time_after_its_products(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulation(problem(**CASE))
    run.run(1)
    telling_otherwise(monkeypatch, lambda current, client, task: replace(task, round_start=current.starts[client]))
    with pytest.raises(InvalidInput, match="round_start"):
        run.round()


def test_local_dual_answers_only_for_the_round_that_the_party_has_begun() -> None:
    run = simulation(problem(**CASE))
    run.run(2)
    half = halves_of(run)[FIRST]
    before = half._begun
    request = half_a_round(run, 3, until="local_dual")
    assert isinstance(request, PhaseRequest)
    half._begun = before
    with pytest.raises(InvalidInput, match="begun another round"):
        run.answer(RoundId(3), "local_dual", FIRST, request.tasks[FIRST])


@pytest.mark.parametrize("phase", ["local_dual", "primal"])
def test_a_record_of_a_phase_without_choices_has_none(phase: str) -> None:
    """Otherwise the server could tell each party other bytes of the newest record, and hear P and D in clear."""
    run = simulation(problem(**CASE))
    run.run(1)

    def marked(client: ClientId) -> Callable[[list[Record]], list[Record]]:
        return lambda records: [*records[:-1], replace(records[-1], choices=client.encode())]

    for client in run.names:
        run.forging[(2, phase, client)] = with_records(marked(client), run.alignment.federation.clients)
    run.lenient = True
    run.round()
    assert not [at for at, during, *_ in run.messages if (at, during) == (2, phase)]
    run = simulation(problem(**CASE))
    run.run(1)
    run.forging[(2, phase, FIRST)] = with_records(marked(FIRST), run.alignment.federation.clients)
    with pytest.raises(Refusal, match="nothing to choose"):
        run.round()


class Unrestored(CorrectiveServer):
    """A server that says of some parties after a round that their memories are intact, whatever happened."""

    after = RoundId(0)
    intact: frozenset[ClientId] = frozenset()

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> CorrectiveRounds:
        if round_id == self.after + 1:
            (state,) = self._states
            self._states = [replace(state, memories=replace(state.memories, intact=self.intact))]
        return super()._begin(round_id, available, closing=closing)


def after_a_failure(
    monkeypatch: pytest.MonkeyPatch, case: Problem, *, at: int, absent: ClientId, unrestored: frozenset[ClientId]
) -> Simulation:
    """A run to the round after one in which a party failed in `primal`."""
    monkeypatch.setattr(Unrestored, "after", RoundId(at))
    monkeypatch.setattr(Unrestored, "intact", unrestored)
    run = Simulation(
        partition(case.data, grid=HORIZONTAL),
        settings(case),
        client_half=CorrectiveClient,
        server_half=Unrestored,
        absent=lambda round_id, phase, client: (round_id, phase, client) == (at, "primal", absent),
    )
    run.run(at + 1)
    return run


@pytest.mark.parametrize("at", [2, 3, 4])
@pytest.mark.parametrize("absent", [FIRST, THIRD], ids=["model not on record", "answer not on record"])
def test_a_party_does_not_go_on_with_a_memory_that_is_not_on_record(
    monkeypatch: pytest.MonkeyPatch, at: int, absent: ClientId
) -> None:
    """FIRST reports the features, so without its answer there is no new best model on record."""
    case = problem(**LARGER)
    ignoring_disagreement(monkeypatch)
    honest = after_a_failure(monkeypatch, case, at=at, absent=absent, unrestored=frozenset())
    error, gap = error_of(honest, case), honest.participants[THIRD].certified_gap()
    assert gap is not None
    assert error <= gap
    run = after_a_failure(monkeypatch, case, at=at, absent=absent, unrestored=frozenset({THIRD}))
    metrics = run.reports[-1].metrics
    assert metrics.absences == {THIRD: "local_dual: rejected: it has lost its memory of the run"}
    assert metrics.primal is None
    run.model()
    assert {party.certified_gap() for party in run.participants.values()} == {None}


def test_a_party_that_found_better_dual_variables_is_not_told_that_they_were_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dishonest(state: Any, current: CorrectiveRound, answers: Answers[CorrectiveAnswer], **values: Any) -> RoundEnd:
        told = {client: replace(answer, accepted=False) for client, answer in answers.good.items()}
        return end_round(state, current, replace(answers, good=told), **values)

    run = simulation(problem(**CASE), HORIZONTAL)
    run.run(2)
    monkeypatch.setattr(corrective_server, "end_round", dishonest)
    with pytest.raises(InvalidInput, match="accepted: is not what this party found"):
        run.run(6)


@pytest.mark.parametrize(("below", "refused"), [(2.0, True), (0.5, False)])
def test_figures_by_which_p_is_below_d_are_refused_but_for_rounding(
    monkeypatch: pytest.MonkeyPatch, below: float, refused: bool
) -> None:
    def lowered(*args: Any, **values: Any) -> Any:
        settlement = settle(*args, **values)
        P = settlement.objectives.primal
        told = replace(settlement.objectives, dual=P + below * GAP_TOLERANCE * (1.0 + abs(P)))
        return replace(settlement, objectives=told)

    run = simulation(problem(**CASE))
    run.run(1)
    monkeypatch.setattr(primal, "settle", lowered)
    if not refused:
        assert run.round().metrics.primal is not None
        return
    with pytest.raises(InvalidInput, match="P is below D"):
        run.round()
    assert not [at for at, phase, *_ in run.messages if (at, phase) == (2, "primal")]


def test_the_digest_of_a_combination_cannot_be_guessed() -> None:
    """In round 1 all the weight is on one of two points: who can hash could try both, without a key."""
    case = problem(**CASE)
    told = []
    for _ in range(2):
        run = simulation(case)
        run.run(2)
        told += [combinations_of(run, round_id) for round_id in (1, 2)]
    assert [len(digests) for digests in told] == [1] * 4, "the server can compare them"
    assert len(set().union(*told)) == 4
    guess = hashlib.sha256(repr(((("anchor", 0),), [1.0])).encode()).digest()
    assert guess not in set().union(*told)


def test_a_server_cannot_go_back_a_whole_round_to_hear_the_figures_of_another_model() -> None:
    run = simulation(problem(**CASE))
    run.run(1)
    old = run.server.snapshot()
    run.run(3)
    run.restore(old)
    del run.reports[1:]
    told = len(run.messages)
    with pytest.raises(Refusal, match="another story"):
        run.round(available=run.names - {LAST})
    assert len(run.messages) == told
