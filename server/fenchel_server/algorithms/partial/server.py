"""Corrective HyFDCA at the server while some of the parties take part: it adds vectors that it cannot read.

A round has the phases `catch_up`, in which parties give shares of pairs that they missed, if somebody owes some;
`pair_products`, `pair_duals` and `pair_primal`. The contributions to a phase count if everybody who takes part has
answered; otherwise the round ends there, and nothing that counted before is lost. The server keeps all sums of a run,
so that a party that was away, or has lost its memory, can go through the rounds that it missed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fenchel_common.algorithms.corrective.pairs import CATCH_UP, PAIR_DUALS, PAIR_PRIMAL, PAIR_PRODUCTS
from fenchel_common.algorithms.partial.messages import DualTask, Facts, PrimalTask
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire import partial as wire
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.partial_snapshot import (
    PartialState,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.partial.certificate import measure
from fenchel_server.algorithms.partial.ending import decoded, outcome_of, progress_in, round_metrics
from fenchel_server.algorithms.partial.exchange import (
    PartialAnswer,
    PartialExchange,
)
from fenchel_server.algorithms.partial.facts import Told, facts_for
from fenchel_server.algorithms.partial.round import PartialRound, begin_round
from fenchel_server.algorithms.partial.sums import (
    first_state,
    measured_products,
    new_pair,
    released_bytes,
    with_model,
    with_pair,
    with_products,
    with_shares,
)
from fenchel_server.algorithms.phased import PhasedServer
from fenchel_server.contract import PhaseRequest, RoundReport, ServerState

VOID: Final = "void: a party failed; what it had given before counts"
NOBODY: Final = "void: none of the parties that should take part is there"
UNCERTIFIED: Final = "no certificate: a party was missing"


class PartialServer(PhasedServer[PartialSettings, PartialRound, PartialAnswer]):
    """The server half of HyFDCA with `local = "corrective"` and any participation but `all`.

    Parameters
    ----------
    preparations
        The bytes that each client's `preparation` gave: the encrypted squared norms of its parts of shared rows.
    """

    def __init__(
        self,
        settings: PartialSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        state = first_state(preparations, layout=layout, key=key, privacy=settings.privacy)
        self._setup(settings, layout, key, RoundId(0), state, records)

    @classmethod
    def restore(
        cls, snapshot: ServerState, *, settings: PartialSettings, layout: FederationLayout, key: RunKey
    ) -> "PartialServer":
        """A server that continues after the round of the snapshot; it tells each client everything again."""
        round_id, state = snapshot_from_bytes(snapshot.own, key, privacy=settings.privacy)
        server = cls.__new__(cls)
        server._setup(settings, layout, key, round_id, state, snapshot.records)
        return server

    def _setup(
        self,
        settings: PartialSettings,
        layout: FederationLayout,
        key: RunKey,
        round_id: RoundId,
        state: PartialState,
        records: Iterable[bytes],
    ) -> None:
        super().__init__(settings, layout, round_id=round_id, records=records)
        self._exchange = PartialExchange(layout, key, settings)
        self._state = state
        self._progress = self._progress_so_far()
        self._told: dict[ClientId, Told] = {}

    def _progress_so_far(self) -> Progress:
        """The progress of the pairs, as the records say."""
        clients = self.layout.clients
        return progress_in(decoded(self._transcript.records, clients), clients, Progress())

    def _last_state(self, client: ClientId) -> bytes:
        return released_bytes(self._state, client, self.layout)

    def _snapshot(self) -> bytes:
        return snapshot_to_bytes(self._round_id, self._state)

    def _forget(self, clients: frozenset[ClientId]) -> None:
        for client in clients:
            self._told.pop(client, None)

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> PartialRound:
        return begin_round(
            round_id,
            available,
            closing=closing,
            settings=self.settings,
            layout=self.layout,
            progress=self._progress,
            state=self._state,
            told=self._told,
        )

    def _round_choices(self) -> bytes:
        return wire.round_choices_to_bytes(self._current().choices, self.layout.clients)

    def _first_request(self) -> PhaseRequest:
        if self._current().progress.catches_up:
            return self._request_with_facts(CATCH_UP, lambda _, facts: wire.task_to_bytes(facts))
        return self._product_request()

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[PartialAnswer, PhaseSums]:
        return self._exchange.read(phase, self._current(), client, body)

    def _take(self, phase: str, answers: Answers[PartialAnswer]) -> PhaseRequest | RoundReport:
        current, before = self._current(), self._current().progress
        good = self._without_failed(answers)
        for client in answers.failed:
            self._told.pop(client, None)
        whole = phase == PAIR_PRODUCTS and self._covers(before, good)
        if phase == PAIR_PRIMAL and not answers.failed and good:
            told = [kept.objectives for kept in good.values()]
            check_agree(told, "objectives: clients opened the same figures to different numbers")
            measure(current, told[0], settings=self.settings, layout=self.layout)
        choices = b""
        if phase == PAIR_PRODUCTS:
            choices = wire.product_choices_to_bytes(whole=whole)
        elif phase == PAIR_PRIMAL:
            choices = wire.primal_choices_to_bytes(better=current.better)
        self._put_on_record(good, choices)
        current.progress = before.after(phase, good, whole=whole)
        if current.progress.void or not good:
            return self._report(VOID if answers.failed else NOBODY, good)
        if phase == CATCH_UP:
            current.state = with_shares(current.state, answers.sums, before)
            return self._product_request()
        if phase == PAIR_PRODUCTS:
            current.state = with_products(
                current.state, answers.sums, before, solved=int(current.id) if whole else None
            )
            current.measured = measured_products(answers.sums)
            return self._dual_request()
        if phase == PAIR_DUALS:
            check_agree((kept.combination for kept in good.values()), "combination: clients remember different points")
            current.values, current.figures = new_pair(answers.sums)
            current.moved = next(iter(good.values())).moved
            return self._primal_request()
        return self._take_primals(answers.sums, good)

    def _product_request(self) -> PhaseRequest:
        return self._request_with_facts(PAIR_PRODUCTS, lambda _, facts: wire.task_to_bytes(facts))

    def _dual_request(self) -> PhaseRequest:
        current = self._current()

        def task(client: ClientId, facts: Facts) -> bytes:
            norms = None
            if not current.told[client].norms:
                norms = current.state.norms.on(self.layout.sample_index.shared_of(client))
                current.told[client] = replace(current.told[client], norms=True)
            return wire.dual_task_to_bytes(DualTask(facts, norms, current.measured_for(client)))

        return self._request_with_facts(PAIR_DUALS, task)

    def _primal_request(self) -> PhaseRequest:
        current = self._current()
        tasks = {}
        for client in current.present:
            values = current.values.within(frozenset(current.live_of(client)))
            tasks[client] = wire.primal_task_to_bytes(PrimalTask(values, current.figures))
        return self._request(PAIR_PRIMAL, tasks)

    def _take_primals(self, sums: PhaseSums, good: Mapping[ClientId, PartialAnswer]) -> RoundReport:
        current = self._current()
        current.state = with_pair(current, sums)
        for client in good if current.choices.owners else ():
            told = current.told[client]
            current.told[client] = replace(told, values=told.values | {int(current.id)})
        current.state = with_model(current, sums)
        self._told |= current.told
        return self._report("", good)

    def _covers(self, progress: Progress, clients: Mapping[ClientId, PartialAnswer]) -> bool:
        """Whether the Gram parts of the batch cover all features."""
        if not progress.next_batch or set(clients) != progress.round.participants:
            return False
        given = progress.gathered | clients.keys()
        return all(not given.isdisjoint(holders) for holders in self.layout.feature_index.holders)

    def _request_with_facts(self, phase: str, encode: Callable[[ClientId, Facts], bytes]) -> PhaseRequest:
        """Begins a phase, in which each client gets the sums that it lacks."""
        current, tasks = self._current(), {}
        for client in current.present:
            facts = facts_for(client, current.told[client], current.state, current.progress, self.layout)
            current.told[client] = current.told[client].plus(facts)
            tasks[client] = encode(client, facts)
        return self._request(phase, tasks)

    def _report(self, void: str, good: Mapping[ClientId, PartialAnswer]) -> RoundReport:
        current = self._current()
        self._state, self._progress = current.state, current.progress
        outcome, reason = (None, "") if void else outcome_of(current, goal=self.settings.stop.gap)
        missing = UNCERTIFIED if current.closing and current.certificate is None else ""
        metrics = round_metrics(current, good, (void, missing), samples=self.layout.sample_count)
        return self._ended(metrics, outcome, reason)
