"""A party's knowledge of a run with some of the parties, by its records: what it does, and what each sum consists of.

The rules are those by which an honest server adds and keeps vectors (`fenchel_server/algorithms/partial`). A server
that adds other contributions gives the party a sum that does not open.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.duals import NORMS
from fenchel_client.companies import company_of
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.corrective.messages import GRAM_FIELD, MODEL_FIELD
from fenchel_common.algorithms.corrective.pairs import CATCH_UP, PAIR_DUALS, PAIR_PRIMAL, PAIR_PRODUCTS
from fenchel_common.algorithms.partial.messages import RoundChoices
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.algorithms.partial.rounds import due_clients, may_measure, trains
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND
from fenchel_common.setup import BEFORE_ROUNDS, Company
from fenchel_common.wire.partial import (
    primal_choices_from_bytes,
    product_choices_from_bytes,
    round_choices_from_bytes,
)

Stamps = Mapping[ClientId, Stamp]
ByPair = Mapping[int, Stamps]
NOBODY: Final[Stamps] = {}
NO_PAIRS: Final = Progress()


@dataclass(frozen=True, slots=True)
class StartOrigins:
    """The origins of the anchor with which the rounds of pairs begin after other rounds; missing blocks are zero.

    `round_id` is the last of these other rounds.
    """

    round_id: int
    alpha: Mapping[int, Origin]
    weights: Mapping[int, Origin]


@dataclass(frozen=True, slots=True)
class PartialBook:
    """The book of a run with some of the parties.

    Attributes
    ----------
    preparations
        The contributions to the row norms.
    progress
        The pairs of the run.
    duals, shares, conjugates, products
        By pair, the contributions to its values, its models, its conjugates, and its inner products.
    grams
        By round, the contributions to the Gram parts of the pairs that were solved in it; `gathered` are those to the
        pairs whose parts are being gathered.
    products_here, duals_here
        The contributions to two phases of the round under way.
    memory
        The nonce of this party's own contribution to the last round that counts to its end, and that round.
    counted
        The contributions to the end of that round, whoever contributed.
    certified
        The nonce of this party's contribution to the last `pair_primal`, if it measured the model.
    model, latest
        The origin of each block of the best model, and of the mean model; `latest` is empty if the best one is newer.
    start
        Only in a run that had other rounds before.
    """

    layout: ClientLayout
    settings: PartialSettings
    preparations: Stamps = field(default_factory=dict)
    progress: Progress = NO_PAIRS
    duals: ByPair = field(default_factory=dict)
    shares: ByPair = field(default_factory=dict)
    conjugates: ByPair = field(default_factory=dict)
    products: ByPair = field(default_factory=dict)
    grams: Mapping[int, Sequence[Stamp]] = field(default_factory=dict)
    gathered: Sequence[Stamp] = ()
    products_here: Stamps = field(default_factory=dict)
    duals_here: Stamps = field(default_factory=dict)
    memory: tuple[bytes, int] = (b"", 0)
    counted: Stamps = field(default_factory=dict)
    certified: bytes = b""
    rounds_done: int = 0
    model: Mapping[int, Origin] = field(default_factory=dict)
    latest: Mapping[int, Origin] = field(default_factory=dict)
    start: StartOrigins | None = None

    def after(self, record: StampedRecord) -> "PartialBook":
        phase = record.moment.phase
        if phase in BEFORE_ROUNDS:
            if set(record.stamps) != set(self.layout.clients):
                raise InvalidInput("record: every party must have answered to its layout")
            return replace(self, preparations=record.stamps)
        if phase == ROUND:
            return self._begun(record)
        whole = phase == PAIR_PRODUCTS and product_choices_from_bytes(record.choices)
        if phase not in (PAIR_PRODUCTS, PAIR_PRIMAL) and record.choices:
            raise InvalidInput(f"record: there is nothing to choose in the phase {phase!r}")
        book = replace(self, progress=self.progress.after(phase, record.stamps, whole=whole))
        if book.progress.void:
            return book
        if phase == CATCH_UP:
            owed = {born for client in record.stamps for born in self.progress.owed(client)}
            shares = _joined(self.shares, {born: self.progress.owing(born) for born in owed}, record.stamps)
            return replace(book, shares=shares)
        if phase == PAIR_PRODUCTS:
            return book._multiplied(self.progress, record.stamps, whole=whole)
        if phase == PAIR_DUALS:
            return replace(book, duals_here=record.stamps)
        return book._ended(record.stamps, better=primal_choices_from_bytes(record.choices))

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`: everybody who takes part, from the last round that counts to its end on."""
        del phase
        if len(self.layout.clients) < 3:
            return None
        return company_of(self.counted.values(), dict.fromkeys(self.choices.participants, 1.0))

    @property
    def choices(self) -> RoundChoices:
        choices = self.progress.round
        if self.layout.party not in choices.participants:
            raise InvalidInput("record: this party does not take part in the round under way")
        return choices

    @property
    def round_id(self) -> RoundId:
        return RoundId(self.progress.rounds[-1].id)

    @property
    def begins(self) -> bool:
        """Whether no phase of the round under way has ended."""
        return self.progress.phase == ROUND

    @property
    def measures(self) -> bool:
        """Whether the round measures the model."""
        return self._measures_in(self.choices)

    def _measures_in(self, choices: RoundChoices) -> bool:
        due = may_measure(self.settings, self.round_id, closing=choices.closing)
        return due and self.progress.knows_anchor and choices.participants == frozenset(self.layout.clients)

    @property
    def live(self) -> tuple[int, ...]:
        """This party's blocks of samples on which the round's new pair differs from the anchor."""
        return self.live_of(self.choices) if self.choices.owners else ()

    def live_of(self, choices: RoundChoices) -> tuple[int, ...]:
        return tuple(block for block in self.layout.holders if self._labelled(block, choices.participants))

    def reports(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """Those of the blocks of which this party is the first label holder that takes part."""
        there = self.choices.participants
        return tuple(block for block in blocks if self._labelled(block, there)[:1] == [self.layout.party])

    @property
    def feature_blocks(self) -> tuple[int, ...]:
        """The blocks of features on which this party reports."""
        return self.layout.first_holder_of(self.choices.participants)

    @property
    def gram_blocks(self) -> tuple[int, ...]:
        """The blocks of features of which this party gives the Gram parts of the round's batch."""
        gathered = self.progress.gathered
        return tuple(block for block in self.feature_blocks if gathered.isdisjoint(self.layout.feature_holders[block]))

    def divisor(self, block: int) -> int:
        """The number of label holders of a block that take part."""
        return len(self._labelled(block, self.choices.participants))

    def labelled(self, holders: tuple[ClientId, ...]) -> list[ClientId]:
        """Those of the holders of a block that have labels and take part."""
        return [one for one in holders if one in self.layout.label_holders and one in self.choices.participants]

    def norm_origins(self, block: int) -> list[Origin]:
        return [Origin(self.preparations[holder], NORMS) for holder in self.layout.holders[block]]

    def point_origins(self, stamps: Stamps, name: str) -> Origins:
        """The contributions of all label holders that took part to the values of a pair's point."""
        return lambda block: [Origin(stamps[one], name) for one in self._labelled(block, stamps)]

    def vertex_origins(self, stamps: Stamps, name: str) -> Origins:
        return lambda block: [Origin(stamps[one], name) for one in self._labelled(block, stamps)[:1]]

    def model_origins(self, born: int, name: str) -> Origins:
        shares = self.shares[born]
        return lambda block: [Origin(shares[one], name) for one in self.layout.feature_holders[block] if one in shares]

    def moved_features(self, born: int) -> tuple[int, ...]:
        """This party's blocks of features of which an owner of the pair is a holder; the pair moves no others."""
        owners = self.shares[born]
        holders = self.layout.feature_holders
        return tuple(block for block in self.layout.feature_blocks if not owners.keys().isdisjoint(holders[block]))

    def conjugate_origins(self, born: int, name: str) -> list[Origin]:
        return self._in_order(self.conjugates[born], name)

    def gram_origins(self, round_id: int) -> list[Origin]:
        return [Origin(stamp, GRAM_FIELD) for stamp in self.grams[round_id]]

    def prediction_origins(self, born: int, name: str) -> Origins:
        given = self.products[born]
        return lambda block: [Origin(given[holder], name) for holder in self.layout.holders[block]]

    def predicted(self, born: int) -> tuple[int, ...]:
        """This party's shared blocks all of whose holders have given their products with a pair's models."""
        given = self.products.get(born, NOBODY)
        return tuple(
            block for block, holders in self.layout.holders.items() if len(holders) > 1 and set(holders) <= set(given)
        )

    def of_all(self, stamps: Stamps, name: str) -> list[Origin]:
        """The contributions of everybody who takes part in the round."""
        return self._in_order({client: stamps[client] for client in self.choices.participants}, name)

    def of_holders(self, stamps: Stamps, name: str) -> Origins:
        return lambda block: [Origin(stamps[holder], name) for holder in self.layout.holders[block]]

    @property
    def released(self) -> Mapping[int, Origin]:
        """The origins of the model that the parties would get if the run ended here."""
        return self.latest or self.model

    def _in_order(self, stamps: Stamps, name: str) -> list[Origin]:
        return [Origin(stamps[client], name) for client in self.layout.clients if client in stamps]

    def _labelled(self, block: int, among: Mapping[ClientId, Stamp] | frozenset[ClientId]) -> list[ClientId]:
        layout = self.layout
        return [one for one in layout.holders[block] if one in layout.label_holders and one in among]

    def _begun(self, record: StampedRecord) -> "PartialBook":
        layout, round_id = self.layout, record.moment.round
        choices = round_choices_from_bytes(record.choices, layout.clients)
        if self.progress.choices is not None and self.progress.choices.closing and self.progress.phase == PAIR_PRIMAL:
            raise InvalidInput("record: a round follows the one that was to be the last")
        due = due_clients(self.settings, layout.clients, round_id, closing=choices.closing)
        if not choices.participants <= due:
            raise InvalidInput("record: participants: are not those that the rule of participation gives")
        if choices.owners and not trains(self.settings, round_id, closing=choices.closing):
            raise InvalidInput("record: owners: nobody trains in this round")
        if choices.owners:
            self._check_owners(choices)
        everybody = choices.participants == frozenset(layout.clients)
        progress = self.progress.begun(round_id, choices, everybody=everybody)
        return replace(self, progress=progress, products_here={}, duals_here={}, certified=b"")

    def _check_owners(self, choices: RoundChoices) -> None:
        live = self.live_of(choices)
        owners = {holder for block in live for holder in self.layout.holders[block]}
        sizes = dict(zip(self.layout.block_ids.tolist(), self.layout.block_sizes.tolist(), strict=True))
        if not owners <= choices.owners or (not live and self.layout.party in choices.owners):
            raise InvalidInput("record: owners: are not the holders of the samples that take part")
        if not sum(sizes[block] for block in live) <= choices.live_samples <= self.layout.sample_count:
            raise InvalidInput("record: live_samples: does not fit the participants")

    def _multiplied(self, before: Progress, stamps: Stamps, *, whole: bool) -> "PartialBook":
        clients = before.round.participants
        pairs = {born for client in clients for born in before.unmultiplied(client)}
        products = _joined(self.products, {born: before.multiplying(born) for born in pairs}, stamps)
        book = replace(self, products=products, products_here=stamps)
        if not before.next_batch:
            return book
        older = self.gathered if before.gathered else ()
        gathered = (*older, *(stamps[client] for client in self.layout.clients if client in stamps))
        if not whole:
            return replace(book, gathered=gathered)
        return replace(book, gathered=(), grams={**self.grams, self.round_id: gathered})

    def _ended(self, stamps: Stamps, *, better: bool) -> "PartialBook":
        choices, round_id = self.progress.round, self.round_id
        first = {
            block: Origin(stamps[holder], MODEL_FIELD)
            for block, held_by in self.layout.feature_holders.items()
            if (holder := next((one for one in held_by if one in stamps), None)) is not None
        }
        measured = self._measures_in(choices)
        if better and not measured:
            raise InvalidInput("record: better: nothing was measured")
        model = first if better else self.model
        latest = {} if measured else {**self.released, **first}
        own = stamps.get(self.layout.party)
        book = replace(
            self,
            model=model,
            latest=latest,
            memory=self.memory if own is None else (own.nonce, round_id),
            counted=stamps,
            certified=own.nonce if own is not None and measured else b"",
            rounds_done=self.rounds_done + self._was_due(stamps, choices, round_id),
        )
        if not choices.owners:
            return book
        given = {client: stamp for client, stamp in stamps.items() if client in choices.owners}
        return replace(
            book,
            duals={**self.duals, round_id: self.duals_here},
            shares={**self.shares, round_id: given},
            conjugates={**self.conjugates, round_id: stamps},
        )

    def _was_due(self, stamps: Stamps, choices: RoundChoices, round_id: RoundId) -> int:
        return int(set(stamps) == due_clients(self.settings, self.layout.clients, round_id, closing=choices.closing))


def _joined(known: ByPair, given: Mapping[int, frozenset[ClientId]], stamps: Stamps) -> dict[int, Stamps]:
    """The contributions to pairs, with those of some clients in a phase added."""
    added = {
        born: {**known.get(born, NOBODY), **{client: stamps[client] for client in sorted(clients)}}
        for born, clients in given.items()
    }
    return {**known, **added}


def of_block(origins: Mapping[int, Origin]) -> Callable[[int], Sequence[Origin]]:
    """The origins of blocks that one party each gives; none for a block that is zero."""
    return lambda block: [origins[block]] if block in origins else []
