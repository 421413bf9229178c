"""HyFDCA with corrective steps at the server: the server adds vectors that it cannot read, and relays the sums.

A round has the phases `inner_product`, `local_dual` and `primal`. Where every client has whole rows, a round has no
`inner_product`. A round with which the run ends, or the problem of a class, has a last phase `measured`. The clients
remember the points; the server stores the anchor, the best model and the pending points. The run's model is the best
model, at which P was least so far; while P is not known it is that of the last round.

A run of several classes has a problem for each class, with its own points, anchor and best model. A message of such a
run has the messages of all problems under way.

D at the anchor cannot fall, and a round in which a client fails before `primal` changes no vector on record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, TypeVar

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, MEASURED, PRIMAL
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import CorrectiveSnapshot, CorrectiveState, Memories
from fenchel_common.wire.parsing import Body
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.corrective.bodies import Bodies
from fenchel_server.algorithms.corrective.ending import RoundEnd, end_round, on_next_leg, void_end
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer, CorrectiveExchange
from fenchel_server.algorithms.corrective.problems import (
    NOT_MEASURED,
    CorrectiveRounds,
    Scores,
    answers_of,
    round_metrics,
    run_outcome,
    states_after,
    told_scores,
    totals_of_scores,
)
from fenchel_server.algorithms.corrective.round import (
    CorrectiveRound,
    begin_round,
    check_memories,
    dual_tasks,
    primal_tasks,
)
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import OTHER_CLIENTS, PhasedServer
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import PhaseRequest, RoundReport, ServerState

OTHER_CLASSES: Final = "the snapshot is of other classes than the settings"


Kept = Mapping[int, CorrectiveAnswer]
"""What is kept of a client's answer, for each problem under way."""


class CorrectiveServer(PhasedServer[CorrectiveSettings, CorrectiveRounds, Kept]):
    """The server half of HyFDCA with `local = "corrective"`.

    Parameters
    ----------
    preparations
        The bytes that each client's `preparation` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: CorrectiveSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        norms = summed_row_norms(preparations, layout=layout, key=key, privacy=settings.privacy)
        memories = Memories(intact=frozenset(layout.clients))
        others = [CorrectiveState(memories=memories) for _ in settings.classes[1:]]
        states = [CorrectiveState(norms=norms, memories=memories), *others]
        self._setup(settings, layout, key, RoundId(0), states, records)

    @classmethod
    def restore(
        cls, snapshot: ServerState, *, settings: CorrectiveSettings, layout: FederationLayout, key: RunKey
    ) -> "CorrectiveServer":
        """A server that continues after the round of the snapshot; a client that has lost its memory will say so."""
        saved = Bodies(settings, layout.clients).saved(snapshot.own, key)
        if len(saved) != max(1, len(settings.classes)):
            raise StateDamaged(OTHER_CLASSES)
        if not all(one.state.memories.participants <= set(layout.clients) for one in saved):
            raise StateDamaged(OTHER_CLIENTS)
        server = cls.__new__(cls)
        server._setup(settings, layout, key, saved[0].round_id, [one.state for one in saved], snapshot.records)
        return server

    def _setup(
        self,
        settings: CorrectiveSettings,
        layout: FederationLayout,
        key: RunKey,
        round_id: RoundId,
        states: list[CorrectiveState],
        records: Iterable[bytes],
    ) -> None:
        super().__init__(settings, layout, round_id=round_id, records=records)
        self._states = states
        self._key = key
        self._bodies = Bodies(settings, layout.clients)
        self._exchange = CorrectiveExchange(layout, key, settings)
        self._knowing_norms: frozenset[ClientId] = frozenset()

    def _last_state(self, client: ClientId) -> bytes:
        """The model on a client's features, of each problem."""
        features = self.layout.feature_index.of(client)
        return self._bodies.tasks([wire.model_to_bytes(state.released.within(features)) for state in self._states])

    def _snapshot(self) -> bytes:
        saved = [CorrectiveSnapshot(self._round_id, state) for state in self._states]
        return self._bodies.snapshot(saved)

    def _forget(self, clients: Set[ClientId]) -> None:
        self._states = [state.without_memories_of(clients) for state in self._states]
        self._knowing_norms -= clients

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> CorrectiveRounds:
        begun = {}
        for problem, state in enumerate(self._states):
            if state.reached is None:
                self._states[problem], begun[problem] = begin_round(
                    state, round_id, available, closing=closing, settings=self.settings, layout=self.layout
                )
        return CorrectiveRounds.of(begun)

    def _round_choices(self) -> bytes:
        current = self._current()
        return self._bodies.round_choices(tuple(current.problems), current.first.choices)

    def _first_request(self) -> PhaseRequest:
        if self.layout.partition == "horizontal":
            return self._dual_request()
        return self._request_of_all(
            INNER_PRODUCT, lambda _, current: _encoded(current.starts, wire.product_task_to_bytes)
        )

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[Kept, PhaseSums]:
        problems = self._current().problems
        bodies = self._bodies.results(body, len(problems))
        parts = {
            problem: self._exchange.read(phase, current, client, part)
            for (problem, current), part in zip(problems.items(), bodies, strict=True)
        }
        sums = PhaseSums.of_problems({problem: sums for problem, (_, sums) in parts.items()})
        return {problem: kept for problem, (kept, _) in parts.items()}, sums

    def _take(self, phase: str, answers: Answers[Kept]) -> PhaseRequest | RoundReport:
        if phase == INNER_PRODUCT:
            return self._take_products(answers) or self._dual_request()
        if phase == LOCAL_DUAL:
            return self._take_duals(answers) or self._primal_request()
        if phase == PRIMAL:
            return self._take_primals(answers)
        return self._take_measured(answers)

    def _take_products(self, answers: Answers[Kept]) -> RoundReport | None:
        self._put_on_record(self._without_failed(answers))
        sums = {problem: answers.sums.of_problem(problem) for problem in self._current().problems}
        for of_problem in sums.values():
            check_memories(of_problem)
        if (void := self._void_after(answers)) is None:
            for problem, current in self._current().problems.items():
                current.products = sums[problem]
        return void

    def _dual_request(self) -> PhaseRequest:
        problems = self._current().problems
        everybody = frozenset(self.layout.clients)
        # All problems have the same norms: the clients get them with the first one.
        knowing = {problem: everybody if number else self._knowing_norms for number, problem in enumerate(problems)}

        def tasks(problem: int, current: CorrectiveRound) -> Mapping[ClientId, bytes]:
            made = dual_tasks(current, self._states[0].norms, knowing_norms=knowing[problem], layout=self.layout)
            return _encoded(made, wire.dual_task_to_bytes)

        return self._request_of_all(LOCAL_DUAL, tasks)

    def _take_duals(self, answers: Answers[Kept]) -> RoundReport | None:
        good = self._without_failed(answers)
        self._put_on_record(good)
        self._knowing_norms |= good.keys()
        if (void := self._void_after(answers)) is not None:
            return void
        for problem, current in self._current().problems.items():
            combinations = (kept[problem].combination for kept in good.values())
            check_agree(combinations, "combination: clients found different weights for the same points")
            current.duals = answers.sums.of_problem(problem)
        return None

    def _primal_request(self) -> PhaseRequest:
        return self._request_of_all(
            PRIMAL, lambda _, current: _encoded(primal_tasks(current, self.layout), wire.primal_task_to_bytes)
        )

    def _take_primals(self, answers: Answers[Kept]) -> PhaseRequest | RoundReport:
        good = self._without_failed(answers)
        ends = {
            problem: end_round(
                self._states[problem], current, answers_of(answers, problem), settings=self.settings, layout=self.layout
            )
            for problem, current in self._current().problems.items()
        }
        self._put_on_record(good, self._bodies.primal_choices({problem: end.choices for problem, end in ends.items()}))
        self._current().ends = ends
        totals = totals_of_scores(ends, answers)
        if not totals:
            return self._report(ends)
        return self._request_of_all(
            MEASURED,
            lambda problem, current: dict.fromkeys(current.blocks, wire.measured_task_to_bytes(totals.get(problem))),
        )

    def _take_measured(self, answers: Answers[Kept]) -> RoundReport:
        """Ends the round with the figures of the models; if all clients have failed, without."""
        good = self._without_failed(answers)
        ends: Mapping[int, RoundEnd] = {
            problem: replace(end, state=end.state.without_memories_of(answers.failed.keys()))
            for problem, end in self._current().ends.items()
        }
        scores = told_scores(good.values())
        ends, value = self._with_leg_over(ends, scores, whole=not answers.failed)
        self._put_on_record(good, wire.measured_choices_to_bytes(value))
        return self._report(ends, scores)

    def _with_leg_over(
        self, ends: Mapping[int, RoundEnd], scores: Scores, *, whole: bool
    ) -> tuple[Mapping[int, RoundEnd], float | None]:
        """The ends of the round, with the state of the next leg if one has ended; and the metric of its model."""
        path, end = self.settings.path, ends.get(0)
        if path is None or end is None or not end.leg_over or not whole:
            return ends, None
        value = None if path.leg(end.state.progress.leg).fold is None else path.measured_in(scores[0])
        return {0: replace(end, state=on_next_leg(end.state, path, self._current().id, value))}, value

    def _request_of_all(
        self, phase: str, tasks_of: Callable[[int, CorrectiveRound], Mapping[ClientId, bytes]]
    ) -> PhaseRequest:
        """Begins a phase, in which each client gets its tasks of all problems under way."""
        current = self._current()
        tasks = [tasks_of(problem, of_problem) for problem, of_problem in current.problems.items()]
        clients = current.first.blocks
        return self._request(
            phase, {client: self._bodies.tasks([of_problem[client] for of_problem in tasks]) for client in clients}
        )

    def _without_failed(self, answers: Answers[Kept]) -> dict[ClientId, Kept]:
        """The good answers; the memory of each other client is not intact any more."""
        self._forget(answers.failed.keys())
        return super()._without_failed(answers)

    def _void_after(self, answers: Answers[Kept]) -> RoundReport | None:
        """The report of the round if it is void after the answers to a phase before `primal`, else None."""
        ends = {}
        for problem in self._current().problems:
            if (end := void_end(self._states[problem], answers_of(answers, problem))) is None:
                return None
            ends[problem] = end
        return self._report(ends)

    def _report(self, ends: Mapping[int, RoundEnd], scores: Scores = NOT_MEASURED) -> RoundReport:
        """Ends the round; `scores` say how well the models of problems predict that have ended."""
        metrics = round_metrics(
            self._current(),
            self._states,
            ends,
            classes=self.settings.class_names,
            scores=scores,
        )
        outcome, reason = run_outcome(ends)
        self._states = states_after(self._states, ends)
        return self._ended(metrics, outcome, reason)


T = TypeVar("T")


def _encoded(tasks: Mapping[ClientId, T], encode: Callable[[T], bytes]) -> dict[ClientId, bytes]:
    """The bytes of the tasks; clients with the same task share its bytes."""
    made = {id(task): task for task in tasks.values()}
    bodies = {name: encode(task) for name, task in made.items()}
    return {client: bodies[id(task)] for client, task in tasks.items()}
