"""The server half of a run of all parties: corrective rounds, and rounds of pairs once parties have come and gone.

As long as the same parties take part, rounds are corrective ones. Each time that others do, or that one has lost its
memory, the parties forget all points but the anchor. Where they would do so for the third time in a few rounds, the run
goes on with rounds of pairs (docs/partial.md), which lose nothing when parties come and go: from the anchor on record,
to the end of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.algorithms.partial.settings import PartialSettings, settings_of_pairs
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.metrics import RoundMetrics
from fenchel_common.records import ROUND, Record
from fenchel_common.wire.corrective import round_choices_from_bytes
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_common.wire.parsing import Body
from fenchel_common.wire.partial import pairs_round_from_bytes, pairs_round_to_bytes
from fenchel_common.wire.partial_snapshot import Best, PartialState, StoredPair, StoredStart, SumsOfPair
from fenchel_server.algorithms.corrective.round import begins_anew
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.algorithms.partial.ending import decoded, progress_in
from fenchel_server.algorithms.partial.server import PartialServer
from fenchel_server.algorithms.phased import OTHER_CLIENTS
from fenchel_server.contract import Outcome, PhaseRequest, RoundReport, ServerState

WINDOW: Final = 10
MOST_COLLAPSES: Final = 2
"""So often in `WINDOW` rounds the parties forget their points before the run goes on with rounds of pairs."""
CONTINUED: Final = "parties come and go: from this round on, points are pairs that wait for those who are away"


class ContinuedServer(PartialServer):
    """The rounds of pairs in a run that had others before; their records say that they are such rounds."""

    @classmethod
    def after(
        cls,
        state: CorrectiveState,
        round_id: RoundId,
        *,
        settings: PartialSettings,
        layout: FederationLayout,
        key: RunKey,
        records: Sequence[bytes],
    ) -> Self:
        """The server half after a corrective round, with the state of the run then."""
        reached, best = state.certified, None
        if reached is not None:
            # Either of the two errors is at most that of the gap.
            best = Best(reached.primal, reached.dual, reached.gap_error, reached.gap_error, reached.accuracy)
        start = StoredStart(
            alpha=state.anchor.alpha,
            weights=state.anchor.weights,
            model_roundings=1 + state.relative_rounds + state.collapses,
            alpha_roundings=1 + state.collapses,
        )
        first = PartialState(
            norms=state.norms,
            pairs={int(round_id): StoredPair(SumsOfPair())},
            model=state.model,
            latest=state.latest,
            best=best,
            start=start,
        )
        server = cls.__new__(cls)
        server._setup(settings, layout, key, round_id, first, records)
        return server

    def _progress_so_far(self) -> Progress:
        records = decoded(self._transcript.records, self.layout.clients)
        first = next((number for number, one in enumerate(records) if _pairs_in(one)), len(records))
        before = records[first].moment.round - 1 if first < len(records) else self._round_id
        return progress_in(map(_unwrapped, records[first:]), self.layout.clients, Progress.continuing(before))

    def _round_choices(self) -> bytes:
        return pairs_round_to_bytes(super()._round_choices())

    def _ended(self, metrics: RoundMetrics, outcome: Outcome | None, reason: str) -> RoundReport:
        if len(self._progress.rounds) == 1:
            metrics = replace(metrics, note="; ".join(note for note in (metrics.note, CONTINUED) if note))
        return super()._ended(metrics, outcome, reason)


class WholeRunServer(CorrectiveServer):
    """The server half of HyFDCA with `local = "corrective"` and `participation = "all"`."""

    _pairs: ContinuedServer | None = None

    @classmethod
    def restore(
        cls, snapshot: ServerState, *, settings: CorrectiveSettings, layout: FederationLayout, key: RunKey
    ) -> "WholeRunServer":
        if settings.classes or not _has_pairs(snapshot, layout):
            server = super().restore(snapshot, settings=settings, layout=layout, key=key)
            assert isinstance(server, WholeRunServer), "made by this class"
            return server
        pairs = ContinuedServer.restore(snapshot, settings=settings_of_pairs(settings), layout=layout, key=key)
        assert isinstance(pairs, ContinuedServer), "made by that class"
        server = cls.__new__(cls)
        server._setup(settings, layout, key, pairs._round_id, [CorrectiveState()], snapshot.records)
        server._pairs = pairs
        return server

    def begin_round(
        self,
        round_id: RoundId,
        available: frozenset[ClientId],
        restarted: frozenset[ClientId],
        *,
        attempt: int,
        closing: bool = False,
    ) -> PhaseRequest:
        last = closing or round_id > self.settings.stop.rounds
        if self._pairs is None and not last and self._come_and_go(round_id, available, restarted):
            self._pairs = ContinuedServer.after(
                self._states[0],
                self._round_id,
                settings=settings_of_pairs(self.settings),
                layout=self.layout,
                key=self._key,
                records=self._transcript.records,
            )
        begin = super().begin_round if self._pairs is None else self._pairs.begin_round
        return begin(round_id, available, restarted, attempt=attempt, closing=closing)

    def receive(self, phase: str, client: ClientId, result: Body) -> None:
        receive = super().receive if self._pairs is None else self._pairs.receive
        receive(phase, client, result)

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        return super().advance(phase, results) if self._pairs is None else self._pairs.advance(phase, results)

    def last_state(self, client: ClientId) -> bytes:
        return super().last_state(client) if self._pairs is None else self._pairs.last_state(client)

    def snapshot(self) -> ServerState:
        return super().snapshot() if self._pairs is None else self._pairs.snapshot()

    def _come_and_go(self, round_id: RoundId, available: frozenset[ClientId], restarted: frozenset[ClientId]) -> bool:
        """Whether the parties would have to forget their points once more, and have done so often of late."""
        if self.settings.classes or self.settings.path is not None:
            return False
        state = self._states[0].without_memories_of(restarted)
        if not begins_anew(state, round_id, available, self.layout):
            return False
        clients = self.layout.clients
        records = decoded(self._transcript.records, clients)
        begun = [round_choices_from_bytes(one.choices, clients) for one in records if one.moment.phase == ROUND]
        # The first round of a run begins in the same way, with nothing to forget.
        recent = begun[1:][-WINDOW:]
        return sum(choices.collapse and bool(choices.participants) for choices in recent) >= MOST_COLLAPSES


def _has_pairs(snapshot: ServerState, layout: FederationLayout) -> bool:
    try:
        return any(map(_pairs_in, decoded(snapshot.records, layout.clients)))
    except InvalidInput:
        raise StateDamaged(OTHER_CLIENTS) from None


def _pairs_in(record: Record) -> bool:
    """Whether a record begins a round of pairs."""
    return record.moment.phase == ROUND and pairs_round_from_bytes(record.choices) is not None


def _unwrapped(record: Record) -> Record:
    """A record of the rounds of pairs, as a run has it that has no other rounds."""
    if record.moment.phase != ROUND:
        return record
    choices = pairs_round_from_bytes(record.choices)
    assert choices is not None, "rounds of pairs go on to the end of the run"
    return Record(record.moment, record.given, choices)
