"""A scoring run at the server: it adds masked parts of scores up, and keeps the sums for the asking party."""

from collections.abc import Mapping, Sequence

from fenchel_common.algorithms.scoring.family import SCORES
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.blocks import BlockSum
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput, ResultRejected
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.wire import scoring as wire
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.scope import Scope
from fenchel_server.algorithms.answers import check_blocks
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import PhasedServer, RoundUnderWay
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport, ServerState


class ScoringServer(PhasedServer[ScoringSettings, RoundUnderWay, None]):
    """The server half of a scoring run."""

    def __init__(
        self,
        settings: ScoringSettings,
        *,
        layout: FederationLayout,
        key: RunKey,
        preparations: Mapping[ClientId, bytes],
        records: Sequence[bytes],
    ) -> None:
        if layout.label_holders != {ClientId(settings.asker)}:
            raise InvalidInput(
                f"settings.asker: {settings.asker!r} must ask, and nobody else: the parties that ask are "
                f"{', '.join(sorted(layout.label_holders))}"
            )
        del preparations
        self._setup(settings, layout, key, RoundId(0), BlockSum(), records)

    @classmethod
    def restore(
        cls, snapshot: ServerState, *, settings: ScoringSettings, layout: FederationLayout, key: RunKey
    ) -> "ScoringServer":
        round_id, sums = wire.scoring_snapshot_from_bytes(snapshot.own, key)
        server = cls.__new__(cls)
        server._setup(settings, layout, key, round_id, sums, snapshot.records)
        return server

    def _setup(
        self,
        settings: ScoringSettings,
        layout: FederationLayout,
        key: RunKey,
        round_id: RoundId,
        sums: BlockSum,
        records: Sequence[bytes],
    ) -> None:
        super().__init__(settings, layout, round_id=round_id, records=records)
        self._asker = ClientId(settings.asker)
        self._sums = sums
        self._scopes = Scope.of_every_client(layout, key=key, privacy=settings.privacy)

    def _forget(self, clients: frozenset[ClientId]) -> None:
        """A client needs nothing but the records."""

    def _begin(self, round_id: RoundId, available: frozenset[ClientId], *, closing: bool) -> RoundUnderWay:
        if missing := [client for client in self.layout.clients if client not in available]:
            raise ResultRejected(missing[0], "it is not there, and a score needs the parts of all parties")
        return RoundUnderWay(id=round_id, closing=closing, present=list(self.layout.clients))

    def _round_choices(self) -> bytes:
        return b""

    def _first_request(self) -> PhaseRequest:
        return self._request(SCORES, dict.fromkeys(self.layout.clients, wire.scoring_task_to_bytes()))

    def _read(self, phase: str, client: ClientId, body: Body) -> tuple[None, PhaseSums]:
        del phase  # A round has one alone.
        scores = wire.scoring_result_from_bytes(body, self._scopes[client])
        due = () if client == self._asker else tuple(self.layout.sample_index.of(client))
        check_blocks(scores, due, SCORES)
        return None, PhaseSums.of({SCORES: scores}, {})

    def _take(self, phase: str, answers: Answers[None]) -> PhaseRequest | RoundReport:
        del phase
        good = self._without_failed(answers)
        for client, reason in answers.failed.items():
            raise ResultRejected(client, reason)
        self._put_on_record(good)
        self._sums = answers.sums.by_block(SCORES)
        current = self._current()
        metrics = RoundMetrics(round=current.id, participants=tuple(current.present))
        reason = f"{self._asker} has asked for the scores of {self.layout.sample_count} rows"
        return self._ended(metrics, Outcome.FINISHED, reason)

    def _last_state(self, client: ClientId) -> bytes:
        return wire.scoring_sums_to_bytes(self._sums.whole() if client == self._asker else None)

    def _snapshot(self) -> bytes:
        return wire.scoring_snapshot_to_bytes(self._round_id, self._sums)
