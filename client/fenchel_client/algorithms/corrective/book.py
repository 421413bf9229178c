"""A party's knowledge of a corrective run by its records: the plan of the round, and what each sum consists of.

The rules are those by which an honest server adds and keeps vectors (`fenchel_server/algorithms/corrective`). A server
that adds other contributions gives the party a sum that does not open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_client.algorithms.codec import Origins
from fenchel_client.algorithms.corrective.plan import RoundPlan
from fenchel_client.algorithms.duals import NORMS
from fenchel_client.companies import company_of
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.corrective.messages import (
    ALPHA_FIELD,
    MODEL_FIELD,
    WEIGHTS_FIELD,
    PrimalChoices,
    RoundChoices,
)
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, MEASURED, PRIMAL
from fenchel_common.algorithms.settings import is_due
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND
from fenchel_common.selection import AT_THE_START, Progress
from fenchel_common.setup import BEFORE_ROUNDS, Company
from fenchel_common.wire.corrective import (
    measured_choices_from_bytes,
    primal_choices_from_bytes,
    round_choices_from_bytes,
)

LOST: Final = b"lost"
"""In place of a nonce: no memory has it."""

Stamps = Mapping[ClientId, Stamp]
ByBlock = Mapping[int, Origin]

_PHASES_BEFORE: Final = {
    INNER_PRODUCT: (ROUND,),
    LOCAL_DUAL: (ROUND, INNER_PRODUCT),
    PRIMAL: (LOCAL_DUAL,),
    MEASURED: (PRIMAL,),
}
"""The phases right after which a phase may follow; a round may end after each of them."""


@dataclass(frozen=True, slots=True)
class CorrectiveBook:
    """The book of a corrective run.

    Attributes
    ----------
    plan
        Of the round under way; None before the first, and in a round in which this party does not take part.
    phase
        The phase of the newest record of the round under way.
    preparations, products, duals
        The contributions to the row norms, and to the phases of the round under way.
    pending
        The contributions to `primal` in the last round that counts, whose points are pending.
    scored
        The contributions to `primal` in the round under way.
    stored
        The plan's round and participants of that round.
    memory
        The nonce of this party's own contribution to `pending`, by which it finds its memory; `LOST` if it has none
        with which it could go on.
    certified
        The nonce of this party's own contribution to the last `primal`, if the model was then put on record.
    rounds_done
        The number of rounds to which all parties contributed to the end.
    anchor_round
        The round whose dual variables are the anchor; 0 before the first.
    blank
        Whether no anchor and no best model of anybody is on record yet.
    alpha, weights, model
        The origin of each block of the anchor, of its model, and of the best model; missing blocks are zero.
    latest
        That of each block of the model of the last round in which P was not known; empty if the best model is newer.
    progress
        How far a run with a path has come.
    leg_ended
        Whether the last round ended the leg.
    pending_leg, weights_leg
        The legs in which the pending points were made, and the anchor's model.
    """

    layout: ClientLayout
    settings: CorrectiveSettings
    choices: RoundChoices | None = None
    plan: RoundPlan | None = None
    phase: str = ""
    preparations: Stamps = field(default_factory=dict)
    products: Stamps = field(default_factory=dict)
    duals: Stamps = field(default_factory=dict)
    pending: Stamps = field(default_factory=dict)
    scored: Stamps = field(default_factory=dict)
    stored: tuple[int, frozenset[ClientId]] = (0, frozenset())
    memory: bytes = b""
    certified: bytes = b""
    rounds_done: int = 0
    anchor_round: int = 0
    blank: bool = True
    alpha: ByBlock = field(default_factory=dict)
    weights: ByBlock = field(default_factory=dict)
    model: ByBlock = field(default_factory=dict)
    latest: ByBlock = field(default_factory=dict)
    progress: Progress = AT_THE_START
    leg_ended: bool = False
    pending_leg: int = 0
    weights_leg: int = 0

    def after(self, record: StampedRecord) -> "CorrectiveBook":
        phase = record.moment.phase
        if phase in BEFORE_ROUNDS:
            return self._prepared(record.stamps)
        if phase == ROUND:
            return self._begun(record)
        if self.choices is None or self.phase not in _PHASES_BEFORE.get(phase, ()):
            raise InvalidInput(f"record: a corrective round has no phase {phase!r} here")
        book = replace(self, phase=phase)
        if phase not in (PRIMAL, MEASURED) and record.choices:
            raise InvalidInput(f"record: there is nothing to choose in the phase {phase!r}")
        if phase == INNER_PRODUCT:
            return replace(book, products=record.stamps)
        if phase == LOCAL_DUAL:
            return replace(book, duals=record.stamps)
        if phase == MEASURED:
            return book._measured(record)
        return book._ended(record, self.choices, primal_choices_from_bytes(record.choices))

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`: all participants, in a round that begins with the anchor and the best model alone.

        Without a collapse the participants of the round before go on, and no others.
        """
        del phase
        if self.plan is None or not self.plan.collapse or len(self.layout.clients) < 3:
            return None
        return company_of(self.pending.values(), dict.fromkeys(self.plan.participants, 1.0))

    @property
    def released(self) -> ByBlock:
        """The origins of the model that the parties would get if the run ended here."""
        return self.latest or self.model

    @property
    def whole_rows(self) -> bool:
        """Whether this party holds whole rows: its samples alone, and all features of the federation."""
        own = sum(len(positions) for positions in self.layout.feature_blocks.values())
        return own == self.layout.feature_count and not self.layout.shared.any()

    def required_plan(self) -> RoundPlan:
        if self.plan is None:
            raise InvalidInput("record: this party does not take part in the round under way")
        return self.plan

    def norm_origins(self, block: int) -> list[Origin]:
        return [Origin(self.preparations[holder], NORMS) for holder in self.layout.holders[block]]

    def of_holders(self, stamps: Stamps, name: str, *, labelled: bool = False) -> Origins:
        """The contributions of all holders of a block of samples, or of those that have labels; all are due."""

        def origins(block: int) -> list[Origin]:
            holders = [
                holder for holder in self.layout.holders[block] if not labelled or holder in self.layout.label_holders
            ]
            return [Origin(_due(stamps, holder), name) for holder in holders]

        return origins

    def of_feature_holders(self, stamps: Stamps, name: str) -> Origins:
        """The contributions of the holders of a block of features that took part."""

        def origins(block: int) -> list[Origin]:
            return [Origin(stamps[holder], name) for holder in self.layout.feature_holders[block] if holder in stamps]

        return origins

    def of_all(self, stamps: Stamps, name: str) -> list[Origin]:
        """The contributions of all participants of the round under way."""
        return [Origin(_due(stamps, client), name) for client in self._in_order(self.required_plan().participants)]

    def of_stored(self, name: str) -> list[Origin]:
        """The contributions to `primal` of all participants of the round whose points are pending."""
        return [Origin(_due(self.pending, client), name) for client in self._in_order(self.stored[1])]

    def _in_order(self, clients: frozenset[ClientId]) -> list[ClientId]:
        return [client for client in self.layout.clients if client in clients]

    def _prepared(self, stamps: Stamps) -> "CorrectiveBook":
        if set(stamps) != set(self.layout.clients):
            raise InvalidInput("record: every party must have answered to its layout")
        return replace(self, preparations=stamps)

    def _begun(self, record: StampedRecord) -> "CorrectiveBook":
        choices, round_id = round_choices_from_bytes(record.choices, self.layout.clients), record.moment.round
        if choices.leg != self.progress.leg:
            return self._on_next_leg(choices, round_id)._begun(record)
        if self.settings.path is not None and choices.participants != frozenset(self.layout.clients):
            raise InvalidInput("record: participants: a run with a path needs all parties in every round")
        plan = self._plan(choices, round_id) if self.layout.party in choices.participants else None
        if not choices.collapse and self.stored != (round_id - 1, choices.participants):
            raise InvalidInput("record: without a collapse, the participants of the round before go on")
        if self.choices is not None and self.choices.closing and self.phase in (PRIMAL, MEASURED):
            raise InvalidInput("record: a round follows the one that was to be the last")
        return replace(
            self,
            choices=choices,
            plan=plan,
            phase=ROUND,
            products={},
            duals={},
            scored={},
            certified=b"",
            leg_ended=False,
        )

    def _on_next_leg(self, choices: RoundChoices, round_id: int) -> "CorrectiveBook":
        """The book after a leg has ended: all parties have told how well its model predicts."""
        path, progress = self.settings.path, self.progress
        if path is None or choices.leg != progress.leg + 1 or not self.leg_ended or path.is_last(progress):
            raise InvalidInput("record: leg: does not follow the one before by the rules of the path")
        following = progress.next_leg(round_id - 1)
        if not path.starts_anew(choices.leg):
            return replace(self, progress=following)
        fresh = type(self)(self.layout, self.settings, preparations=self.preparations)
        return replace(fresh, rounds_done=self.rounds_done, progress=following)

    def _plan(self, choices: RoundChoices, round_id: int) -> RoundPlan:
        layout, participants = self.layout, choices.participants
        live = layout.live_blocks(participants)
        at_work = set(live)
        sizes = dict(zip(layout.block_ids.tolist(), layout.block_sizes.tolist(), strict=True))
        own = sum(sizes[block] for block in live)
        complete = participants == frozenset(layout.clients)
        most = layout.sample_count
        if not own or not own <= choices.live_samples <= most or (complete and choices.live_samples != most):
            raise InvalidInput("record: live_samples: does not fit the participants")
        certifying = choices.closing or is_due(round_id, self.settings.certificate_every)
        return RoundPlan(
            round_id=round_id,
            participants=participants,
            collapse=choices.collapse,
            closing=choices.closing,
            complete=complete,
            live_samples=choices.live_samples,
            live_blocks=live,
            report_blocks=tuple(block for block in layout.reports if block in at_work),
            feature_blocks=layout.first_holder_of(participants),
            told_blocks=tuple(block for block in layout.told_blocks if block in at_work),
            divisors=tuple(sum(holder in layout.label_holders for holder in layout.holders[block]) for block in live),
            scale=choices.live_samples / own,
            objectives=certifying and complete,
            tells_vertices=layout.label_holders != frozenset(layout.clients),
            blank=self.blank,
            label_holders=layout.label_holders,
            leg=self.settings.leg(self.progress.leg),
            leg_over=self.settings.leg_is_over(self.progress, round_id),
            lambda_ahead=self.settings.lambda_ahead(self.progress),
        )

    def _ended(self, record: StampedRecord, begun: RoundChoices, ended: PrimalChoices) -> "CorrectiveBook":
        """The book after `primal`; a round to which nobody contributed changes nothing."""
        stamps = record.stamps
        if not stamps:
            return self
        if not set(stamps) <= begun.participants or set(self.duals) != begun.participants:
            raise InvalidInput("record: contributors to primal must be participants, and all must have combined points")
        first = {
            block: holder
            for block, held_by in self.layout.feature_holders.items()
            if (holder := next((one for one in held_by if one in begun.participants), None)) is not None
        }
        weights = {
            **self.weights,
            **{block: Origin(self.duals[holder], WEIGHTS_FIELD) for block, holder in first.items()},
        }
        own = stamps.get(self.layout.party)
        complete = begun.participants == frozenset(self.layout.clients)
        blank = self.blank and not ((ended.reported and complete) or ended.accepted)
        book = replace(
            self, certified=own.nonce if own is not None and ended.reported else b"", scored=stamps, blank=blank
        )
        if ended.reported:
            reported = {block: Origin(_due(stamps, holder), MODEL_FIELD) for block, holder in first.items()}
            known = {} if complete else {**self.released, **reported}
            book = replace(book, model=reported if complete else self.model, latest=known)
        if begun.closing:
            return book
        if set(stamps) == set(self.layout.clients):
            book = replace(book, rounds_done=self.rounds_done + 1)
        if ended.accepted:
            live = self.layout.live_blocks(begun.participants)
            alpha = {block: self.of_reporter(block, ALPHA_FIELD) for block in live}
            book = replace(book, anchor_round=record.moment.round, alpha={**self.alpha, **alpha}, weights=weights)
            book = replace(book, weights_leg=self.progress.leg)
        return replace(
            book,
            pending=stamps,
            pending_leg=self.progress.leg,
            stored=(record.moment.round, begun.participants),
            memory=own.nonce if own is not None and ended.reported else LOST,
        )

    def _measured(self, record: StampedRecord) -> "CorrectiveBook":
        """The book after `measured`: if all parties took part, a leg has ended. With a fold, there is a metric."""
        value, whole = measured_choices_from_bytes(record.choices), set(record.stamps) == set(self.layout.clients)
        held_out = self.settings.leg(self.progress.leg).fold is not None
        if (value is not None) != (held_out and whole):
            raise InvalidInput("record: value: must be there if all parties have measured the samples of a fold")
        progress = self.progress if value is None else self.progress.with_value(value)
        return replace(self, progress=progress, leg_ended=whole)

    def of_reporter(self, block: int, name: str) -> Origin:
        """The contribution to `local_dual` of the party that reports on a block of samples."""
        reporter = self.layout.reporter_of(self.layout.holders[block])
        if reporter is None:
            raise InvalidInput("layout: a block of samples has no label holder")
        return Origin(_due(self.duals, reporter), name)


def one_of(origins: ByBlock) -> Origins:
    """The origins of blocks that one party each gives; none for a block that is zero."""

    def of_block(block: int) -> Sequence[Origin]:
        return [origins[block]] if block in origins else []

    return of_block


def _due(stamps: Stamps, client: ClientId) -> Stamp:
    if client not in stamps:
        raise InvalidInput(f"record: the contribution of {client} is missing")
    return stamps[client]
