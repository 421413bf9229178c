"""HyFDCA with corrective steps at the server: the server adds vectors that it cannot read, and relays the sums.

A round has the phases `inner_product`, `local_dual` and `primal`. Where every client has whole rows, a round has no
`inner_product`. The clients remember the points; the server stores the anchor, the best model and the pending points.
The run's model is the best model, at which P was least so far.

D at the anchor cannot fall, and a round in which a client fails before `primal` changes no vector on record.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.blocks import joined_on
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import corrective as wire
from fenchel_common.wire.corrective_snapshot import (
    CorrectiveSnapshot,
    CorrectiveState,
    Memories,
    snapshot_from_bytes,
    snapshot_to_bytes,
)
from fenchel_common.wire.records import server_state_from_bytes
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.certificate import with_certificate
from fenchel_server.algorithms.corrective.ending import RoundEnd, end_round, void_end
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer, CorrectiveExchange
from fenchel_server.algorithms.corrective.round import (
    CorrectiveRound,
    begin_round,
    check_memories,
    dual_tasks,
    primal_tasks,
    updated_samples,
)
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import OTHER_CLIENTS, PhasedServer
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import PhaseRequest, RoundReport

UNCERTIFIED: Final = "no certificate: a party was missing"


class CorrectiveServer(PhasedServer[CorrectiveSettings, CorrectiveRound, CorrectiveAnswer]):
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
        state = CorrectiveState(norms=norms, memories=Memories(intact=frozenset(layout.clients)))
        self._setup(settings, layout, key, CorrectiveSnapshot(RoundId(0), state), records)

    @classmethod
    def restore(
        cls, snapshot: bytes, *, settings: CorrectiveSettings, layout: FederationLayout, key: RunKey
    ) -> "CorrectiveServer":
        """A server that continues after the round of the snapshot; a client that has lost its memory will say so."""
        records, saved_state = server_state_from_bytes(snapshot)
        saved = snapshot_from_bytes(saved_state, key, privacy=settings.privacy)
        if not saved.state.memories.participants <= set(layout.clients):
            raise StateDamaged(OTHER_CLIENTS)
        server = cls.__new__(cls)
        server._setup(settings, layout, key, saved, records)
        return server

    def _setup(
        self,
        settings: CorrectiveSettings,
        layout: FederationLayout,
        key: RunKey,
        saved: CorrectiveSnapshot,
        records: Iterable[bytes],
    ) -> None:
        super().__init__(settings, layout, round_id=saved.round_id, records=records)
        self._state = saved.state
        self._exchange = CorrectiveExchange(layout, key, settings)
        self._knowing_norms: frozenset[ClientId] = frozenset()

    def _last_state(self, client: ClientId) -> bytes:
        """The best model on a client's features."""
        return wire.model_to_bytes(joined_on(self.layout.feature_index.of(client), self._state.model))

    def _snapshot(self) -> bytes:
        return snapshot_to_bytes(CorrectiveSnapshot(self._round_id, self._state))

    def _forget(self, clients: Set[ClientId]) -> None:
        self._state = self._state.without_memories_of(clients)
        self._knowing_norms -= clients

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> CorrectiveRound:
        self._state, begun = begin_round(
            self._state, round_id, available, closing=closing, settings=self.settings, layout=self.layout
        )
        return begun

    def _round_choices(self) -> bytes:
        return wire.round_choices_to_bytes(self._current().choices, self.layout.clients)

    def _first_request(self) -> PhaseRequest:
        if self.layout.partition == "horizontal":
            return self._dual_request()
        starts = self._current().starts
        tasks = {client: wire.product_task_to_bytes(start) for client, start in starts.items()}
        return self._request(INNER_PRODUCT, tasks)

    def _read(self, phase: str, client: ClientId, body: bytes) -> tuple[CorrectiveAnswer, PhaseSums]:
        return self._exchange.read(phase, self._current(), client, body)

    def _take(self, phase: str, answers: Answers[CorrectiveAnswer]) -> PhaseRequest | RoundReport:
        if phase == INNER_PRODUCT:
            return self._take_products(answers) or self._dual_request()
        if phase == LOCAL_DUAL:
            return self._take_duals(answers) or self._primal_request()
        return self._take_primals(answers)

    def _take_products(self, answers: Answers[CorrectiveAnswer]) -> RoundReport | None:
        self._put_on_record(self._without_failed(answers))
        check_memories(answers.sums)
        if (void := self._void_after(answers)) is None:
            self._current().products = answers.sums
        return void

    def _dual_request(self) -> PhaseRequest:
        tasks = dual_tasks(self._current(), self._state.norms, knowing_norms=self._knowing_norms, layout=self.layout)
        return self._request(LOCAL_DUAL, {client: wire.dual_task_to_bytes(task) for client, task in tasks.items()})

    def _take_duals(self, answers: Answers[CorrectiveAnswer]) -> RoundReport | None:
        current, good = self._current(), self._without_failed(answers)
        self._put_on_record(good)
        self._knowing_norms |= good.keys()
        if (void := self._void_after(answers)) is not None:
            return void
        combinations = (answer.combination for answer in good.values())
        check_agree(combinations, "combination: clients found different weights for the same points")
        current.duals = answers.sums
        current.solvers = frozenset(client for client, answer in good.items() if answer.solved)
        return None

    def _primal_request(self) -> PhaseRequest:
        tasks = primal_tasks(self._current(), self.layout)
        return self._request(PRIMAL, {client: wire.primal_task_to_bytes(task) for client, task in tasks.items()})

    def _take_primals(self, answers: Answers[CorrectiveAnswer]) -> RoundReport:
        current, good = self._current(), self._without_failed(answers)
        end = end_round(self._state, current, answers, settings=self.settings, layout=self.layout)
        self._put_on_record(good, wire.primal_choices_to_bytes(end.choices))
        return self._report(end)

    def _without_failed(self, answers: Answers[CorrectiveAnswer]) -> dict[ClientId, CorrectiveAnswer]:
        """The good answers; the memory of each other client is not intact any more."""
        self._forget(answers.failed.keys())
        return super()._without_failed(answers)

    def _void_after(self, answers: Answers[CorrectiveAnswer]) -> RoundReport | None:
        """The report of the round if it is void after the answers to a phase before `primal`, else None."""
        end = void_end(self._state, answers)
        return None if end is None else self._report(end)

    def _report(self, end: RoundEnd) -> RoundReport:
        """Ends the round."""
        current, certificate = self._current(), end.certificate
        self._state = end.state
        metrics = RoundMetrics(
            round=current.id,
            samples_updated=updated_samples(current, self.layout),
            participants=tuple(current.present),
            absences=current.absences,
        )
        notes = (end.void, UNCERTIFIED if current.certifying and certificate is None else "")
        return self._ended(with_certificate(metrics, certificate, notes), end.outcome, end.reason)
