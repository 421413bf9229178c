"""The progress of the pairs of points of a run, as it follows from the records: the same at the server and each party.

Each training round makes a *pair*: a point and a vertex, which differ from the anchor on the samples of the round's
*live* blocks, those of which a label holder takes part. The holders of these blocks are the pair's *owners*. Each owner
gives its share of the pair's models, in this round or when it takes part again; the pair is then *complete*. The
parties that take part gather the products of the models of complete pairs with all remembered models; when all features
are covered, all parties combine the points anew, and these pairs are *solved*. Everybody who takes part also gives
inner products with the models of complete pairs, once for each pair.

The contributions to a phase count if everybody who takes part in the round has answered. Otherwise the round ends
there.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from fenchel_common.algorithms.corrective.pairs import (
    CATCH_UP,
    MAX_BATCH,
    MAX_OPEN,
    PAIR_DUALS,
    PAIR_PRIMAL,
    PAIR_PRODUCTS,
    REMEMBERED,
)
from fenchel_common.algorithms.partial.messages import RoundChoices
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of points.

    Attributes
    ----------
    born
        The round that made it.
    owners
        The holders of samples on which its points differ from the anchor.
    shared, multiplied
        The clients that have given their share of its models, and their inner products with them.
    solved
        The round in which it was solved; 0 before.
    given_up
        Whether nobody needs it any more: it was open for too long.
    """

    born: int
    owners: frozenset[ClientId]
    shared: frozenset[ClientId]
    multiplied: frozenset[ClientId] = frozenset()
    solved: int = 0
    given_up: bool = False

    @property
    def is_start(self) -> bool:
        """Whether both points are the anchor with which the rounds of pairs begin."""
        return not self.owners

    @property
    def complete(self) -> bool:
        return self.owners <= self.shared

    @property
    def open(self) -> bool:
        """Whether shares are missing, and are still of use."""
        return not self.complete and not self.given_up


@dataclass(frozen=True, slots=True)
class RoundSteps:
    """The steps of a round that count.

    Attributes
    ----------
    solved
        The pairs that were solved, in their order.
    born
        Whether the round made a pair.
    live_samples
        The number of samples on which the pair differs from the anchor, or may do so.
    """

    id: int
    solved: tuple[int, ...] = ()
    born: bool = False
    live_samples: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The pairs of a run so far.

    Attributes
    ----------
    pairs
        All pairs, by the round that made them.
    batch, gathered
        The pairs whose Gram parts are being gathered, and who has given parts in earlier rounds. A round of all clients
        begins anew, with all pairs.
    past, steps
        The steps of the rounds before, and of the round under way.
    choices, phase, void
        Those of the round under way; the phase of the newest record; whether the round has ended before its time.
    """

    pairs: tuple[Pair, ...] = ()
    batch: tuple[int, ...] = ()
    gathered: frozenset[ClientId] = frozenset()
    past: tuple[RoundSteps, ...] = ()
    steps: RoundSteps | None = None
    choices: RoundChoices | None = None
    phase: str = ""
    void: bool = False

    @classmethod
    def continuing(cls, round_id: int) -> "Progress":
        """The progress of a run whose rounds up to this one were others: their anchor is a pair of this round.

        So its products with other models, and with the rows, become known like those of all pairs.
        """
        return cls(pairs=(Pair(round_id, frozenset(), frozenset()),))

    @property
    def knows_anchor(self) -> bool:
        """Whether the length of the anchor's model was known when the round under way began."""
        under_way = 0 if self.steps is None else self.steps.id
        return all(0 < pair.solved < under_way for pair in self.pairs if pair.is_start)

    def pair(self, born: int) -> Pair:
        return next(pair for pair in self.pairs if pair.born == born)

    @property
    def round(self) -> RoundChoices:
        if self.choices is None:
            raise InvalidInput("record: no round is under way")
        return self.choices

    @property
    def rounds(self) -> tuple[RoundSteps, ...]:
        """The steps of all rounds, that under way included."""
        return self.past if self.steps is None else (*self.past, self.steps)

    @property
    def remembered(self) -> tuple[int, ...]:
        """The solved pairs whose points the parties remember, in the order in which they were solved."""
        solved = [born for steps in self.rounds for born in steps.solved]
        return tuple(solved[-REMEMBERED:])

    def owed(self, client: ClientId) -> tuple[int, ...]:
        """The pairs of earlier rounds of which the client owes its share."""
        return tuple(pair.born for pair in self.pairs if pair.open and client in pair.owners - pair.shared)

    def live_samples_of(self, born: int) -> int:
        """The number of live samples of the round that made a pair."""
        return next(steps.live_samples for steps in self.rounds if steps.id == born)

    @property
    def catches_up(self) -> bool:
        """Whether the round under way begins with `catch_up`."""
        return any(self.owed(client) for client in self.round.participants)

    def owing(self, born: int) -> frozenset[ClientId]:
        """Those who take part in the round and owe their share of a pair."""
        pair = self.pair(born)
        return (pair.owners - pair.shared) & self.round.participants

    def unmultiplied(self, client: ClientId) -> tuple[int, ...]:
        """The pairs with whose models the client has still to give its inner products."""
        return tuple(pair.born for pair in self._useful if client not in pair.multiplied)

    def multiplying(self, born: int) -> frozenset[ClientId]:
        """Those who take part in the round and have still to give their inner products with a pair's models."""
        return self.round.participants - self.pair(born).multiplied

    @property
    def next_batch(self) -> tuple[int, ...]:
        """The pairs whose Gram parts are gathered in the round under way."""
        waiting = (pair.born for pair in self.pairs if pair.complete and not pair.solved)
        return self.batch or tuple(waiting)[:MAX_BATCH]

    @property
    def _useful(self) -> Iterable[Pair]:
        remembered = set(self.remembered)
        return (pair for pair in self.pairs if pair.complete and (not pair.solved or pair.born in remembered))

    def begun(self, round_id: int, choices: RoundChoices, *, everybody: bool) -> "Progress":
        """After the record with which a round begins; `everybody` says whether all clients take part in it.

        They complete all pairs and can give all parts of their products, so that no part from before is needed.
        """
        progress = replace(self, batch=(), gathered=frozenset()) if everybody else self
        steps = RoundSteps(round_id, live_samples=choices.live_samples)
        return replace(progress, past=self.rounds, steps=steps, choices=choices, phase=ROUND, void=False)

    def after(self, phase: str, contributors: Collection[ClientId], *, whole: bool = False) -> "Progress":
        """After the record of a phase of the round under way.

        `whole` says that all features are covered by the Gram parts of the batch.
        """
        expected = {ROUND: CATCH_UP if self.catches_up else PAIR_PRODUCTS, CATCH_UP: PAIR_PRODUCTS}
        expected |= {PAIR_PRODUCTS: PAIR_DUALS, PAIR_DUALS: PAIR_PRIMAL}
        if self.steps is None or self.void or expected.get(self.phase) != phase:
            raise InvalidInput(f"record: a round has no phase {phase!r} here")
        if not set(contributors) <= self.round.participants:
            raise InvalidInput("record: only those who take part in a round contribute")
        progress = replace(self, phase=phase, void=set(contributors) != self.round.participants)
        if whole and (progress.void or phase != PAIR_PRODUCTS or not self.next_batch):
            raise InvalidInput("record: whole: there is no such sum")
        if progress.void:
            return progress
        if phase == CATCH_UP:
            return progress._shared(self.round.participants)
        if phase == PAIR_PRODUCTS:
            return progress._multiplied(self.steps, whole=whole)
        return progress if phase == PAIR_DUALS else progress._with_pair(self.steps)

    def _shared(self, clients: frozenset[ClientId]) -> "Progress":
        pairs = (
            replace(pair, shared=pair.shared | (pair.owners & clients)) if pair.open else pair for pair in self.pairs
        )
        return replace(self, pairs=tuple(pairs))

    def _multiplied(self, steps: RoundSteps, *, whole: bool) -> "Progress":
        clients, batch = self.round.participants, self.next_batch
        useful = {pair.born for pair in self._useful}
        pairs = [
            replace(pair, multiplied=pair.multiplied | clients) if pair.born in useful else pair for pair in self.pairs
        ]
        if not whole:
            gathered = self.gathered | clients if batch else self.gathered
            return replace(self, pairs=tuple(pairs), batch=batch, gathered=gathered)
        pairs = [replace(pair, solved=steps.id) if pair.born in batch else pair for pair in pairs]
        steps = replace(steps, solved=batch)
        return replace(self, pairs=tuple(pairs), batch=(), gathered=frozenset(), steps=steps)

    def _with_pair(self, steps: RoundSteps) -> "Progress":
        choices = self.round
        if not choices.owners:
            return self
        new = Pair(steps.id, choices.owners, choices.owners & choices.participants)
        pairs = (*self.pairs, new)
        waiting = [pair.born for pair in pairs if pair.open]
        old = set(waiting[: max(0, len(waiting) - MAX_OPEN)])
        pairs = tuple(replace(pair, given_up=True) if pair.born in old else pair for pair in pairs)
        return replace(self, pairs=pairs, steps=replace(steps, born=True))
