"""HyFDCA with corrective steps at the server: the server adds vectors that it cannot read, and relays the sums.

A round has the phases `inner_product`, `local_dual` and `primal`. Where every client has whole rows, a round has no
`inner_product`. The clients remember the points; the server stores the anchor, the best model and the pending points.
The run's model is the best model, at which P was least so far.

D at the anchor cannot fall, and a round in which a client fails before `primal` changes no vector on record.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Final, TypeVar

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
from fenchel_server.algorithms.corrective.exchange import CorrectiveExchange, check_same_formats
from fenchel_server.algorithms.corrective.round import (
    CorrectiveRound,
    begin_round,
    dual_tasks,
    primal_tasks,
    updated_samples,
)
from fenchel_server.algorithms.phased import OTHER_CLIENTS, Answers, PhasedServer
from fenchel_server.algorithms.rownorms import summed_row_norms
from fenchel_server.contract import PhaseRequest, RoundReport

R = TypeVar("R")

UNCERTIFIED: Final = "no certificate: a party was missing"


class CorrectiveServer(PhasedServer[CorrectiveSettings, CorrectiveRound]):
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
        record: bytes,
    ) -> None:
        norms = summed_row_norms(preparations, layout=layout, key=key, privacy=settings.privacy)
        state = CorrectiveState(norms=norms, memories=Memories(intact=frozenset(layout.clients)))
        self._setup(settings, layout, key, CorrectiveSnapshot(RoundId(0), state), [record])

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
        formats = settings.formats(len(layout.clients))
        self._exchange = CorrectiveExchange(layout, key, privacy=settings.privacy, formats=formats)
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

    def _take(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        if phase == INNER_PRODUCT:
            return self._take_products(results) or self._dual_request()
        if phase == LOCAL_DUAL:
            return self._take_duals(results) or self._primal_request()
        return self._take_primals(results)

    def _take_products(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        read = self._exchange.products(current, results)
        current.products = self._without_failed(read)
        self._put_on_record(current.products)
        lengths = (answer.gram.length for answer in current.products.values())
        check_agree(lengths, "gram: clients disagree on what they remember")
        check_same_formats(current.products.values())
        return self._void_after(read)

    def _dual_request(self) -> PhaseRequest:
        tasks = dual_tasks(self._current(), self._state.norms, knowing_norms=self._knowing_norms, layout=self.layout)
        return self._request(LOCAL_DUAL, {client: wire.dual_task_to_bytes(task) for client, task in tasks.items()})

    def _take_duals(self, results: Mapping[ClientId, bytes]) -> RoundReport | None:
        current = self._current()
        read = self._exchange.duals(current, results)
        answers = self._without_failed(read)
        self._put_on_record(answers)
        self._knowing_norms |= answers.keys()
        if (void := self._void_after(read)) is not None:
            return void
        combinations = (answer.combination for answer in answers.values())
        check_agree(combinations, "combination: clients found different weights for the same points")
        current.duals = answers
        return None

    def _primal_request(self) -> PhaseRequest:
        tasks = primal_tasks(self._current())
        return self._request(PRIMAL, {client: wire.primal_task_to_bytes(task) for client, task in tasks.items()})

    def _take_primals(self, results: Mapping[ClientId, bytes]) -> RoundReport:
        current = self._current()
        answers = self._without_failed(self._exchange.primals(current, results))
        end = end_round(self._state, current, answers, settings=self.settings, layout=self.layout)
        self._put_on_record(answers, wire.primal_choices_to_bytes(end.choices))
        return self._report(end)

    def _without_failed(self, answers: Answers[R]) -> dict[ClientId, R]:
        """The good answers; the memory of each other client is not intact any more."""
        self._forget(answers.failed.keys())
        return super()._without_failed(answers)

    def _void_after(self, read: Answers[R]) -> RoundReport | None:
        """The report of the round if it is void after the answers to a phase before `primal`, else None."""
        end = void_end(self._state, read)
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
