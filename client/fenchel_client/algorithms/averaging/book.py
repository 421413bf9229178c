"""What a party knows of a run on the averaging rails by the records: its work, and who made what it may open."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_client.algorithms.averaging.blocks import CoordinateBlocks
from fenchel_client.algorithms.averaging.log import OwnLog, same_origins
from fenchel_client.algorithms.averaging.work import FIGURES_FIELD, PRODUCTS_FIELD
from fenchel_client.algorithms.codec import Origins
from fenchel_client.companies import company_of
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.averaging.choices import Occasion, RecordedPlan
from fenchel_common.algorithms.averaging.rails import LOCAL, MEASURE, MEASURED, SURVEY
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.records import ROUND, Moment
from fenchel_common.setup import BEFORE_ROUNDS, Company
from fenchel_common.wire.averaging_choices import closing_from_bytes, plan_from_bytes, round_choices_from_bytes

PHASES: Final = (ROUND, SURVEY, LOCAL, MEASURE, MEASURED)
"""The order of the records of a round."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundOnRecord:
    """The round under way, as far as it is on record.

    Attributes
    ----------
    moment
        Of the newest record of the round.
    measuring
        Whether P(w) is measured: it is due, all parties are present, and none has failed so far.
    active
        The clients that may train.
    closing
        Whether the round measures the model as it is and changes nothing.
    plan
        None before it is on record, and in a round without trainers.
    local
        The messages of the phase `local` that count.
    figures
        The messages with figures that count.
    opened_by
        The parties that opened the sum of all figures, by their own confirmations.
    """

    moment: Moment
    measuring: bool
    active: tuple[ClientId, ...]
    closing: bool = False
    plan: RecordedPlan | None = None
    local: Mapping[ClientId, Stamp] = field(default_factory=dict)
    figures: tuple[Stamp, ...] = ()
    opened_by: frozenset[ClientId] = frozenset()

    @property
    def id(self) -> RoundId:
        return self.moment.round

    @property
    def trainers(self) -> tuple[ClientId, ...]:
        return () if self.plan is None else self.plan.trainers

    def has_reached(self, phase: str) -> bool:
        """Whether the record of a phase, or of a later one, is there."""
        return PHASES.index(self.moment.phase) >= PHASES.index(phase)


@dataclass(frozen=True, slots=True, eq=False)
class AveragingBook:
    """The records of a run, folded into what one party needs of them.

    Attributes
    ----------
    log
        The contributions of which the state consists, on the party's own blocks.
    kept, kept_among
        The party's own latest message in which it trained, which has the party's memory, and who trained with it.
    round
        The newest round on record; None before the first.
    rounds_done
        The number of rounds on record in which all contributed that were to train, chosen among all label holders
        unless parties take turns.
    """

    settings: AveragingSettings
    layout: ClientLayout
    log: OwnLog
    masked: bool = False
    """Whether masks hide the vectors: then a round counts only if all contribute that were to train."""
    kept: Stamp | None = None
    kept_among: tuple[ClientId, ...] = ()
    round: RoundOnRecord | None = None
    rounds_done: int = 0

    @classmethod
    def first(cls, settings: AveragingSettings, layout: ClientLayout, *, masked: bool = False) -> "AveragingBook":
        """The book before the first record."""
        return cls(settings, layout, OwnLog(CoordinateBlocks.of(layout, width=settings.width)), masked)

    def after(self, record: StampedRecord) -> "AveragingBook":
        if record.moment.phase in BEFORE_ROUNDS:
            return self
        if record.moment.phase == ROUND:
            return replace(self, round=self._begun(record))
        current = self.current(record.moment.phase)
        if record.moment.round != current.id or current.has_reached(record.moment.phase):
            raise InvalidInput(
                f"record: the phase {record.moment.phase!r:.80} does not follow {current.moment.phase!r}"
            )
        ended = replace(current, moment=record.moment)
        if record.moment.phase == SURVEY:
            return replace(self, round=self._surveyed(ended, record))
        if record.moment.phase == LOCAL:
            return self._trained(ended, record)
        _check_no_choices(record)
        if record.moment.phase == MEASURE:
            complete = set(record.stamps) == set(self.layout.clients)
            ended = replace(
                ended,
                measuring=current.measuring and complete,
                figures=(*ended.figures, *record.stamps.values()),
            )
        else:
            ended = replace(ended, opened_by=frozenset(record.stamps))
        return replace(self, round=ended)

    def current(self, phase: str) -> RoundOnRecord:
        """The round under way; `InvalidInput` if there is none, or if the phase is none of this family."""
        if phase not in PHASES or self.round is None:
            raise InvalidInput(f"phase: this algorithm has no phase {phase!r:.80}, or no round is under way")
        return self.round

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`: that of the trained vectors. All other sums are over all holders or all parties."""
        current = self.round
        if phase != LOCAL or current is None or current.plan is None or self.layout.party not in current.trainers:
            return None
        beside = self.log.own.beside
        weights = {client: current.plan.weights[client] for client in current.trainers if client in beside}
        return company_of(self.log.made_by, weights) if weights else None

    def product_origins(self) -> Origins:
        """The origins of the summed inner products: all holders of a block, or `InvalidInput`."""
        local = self.current(MEASURE).local

        def origins(block: int) -> list[Origin]:
            holders = self.layout.holders[block]
            if any(holder not in local for holder in holders):
                raise InvalidInput("products: not all holders of a block of samples contributed")
            return [Origin(local[holder], PRODUCTS_FIELD) for holder in holders]

        return origins

    def figure_origins(self) -> Origins:
        """The origins of the sum of all figures; `InvalidInput` unless all parties contributed to it."""
        current = self.current(MEASURED)
        if not current.measuring or set(current.local) != set(self.layout.clients):
            raise InvalidInput("figures: they are opened only if all parties contributed to them")
        return same_origins(current.figures, FIGURES_FIELD)

    def _begun(self, record: StampedRecord) -> RoundOnRecord:
        choices = round_choices_from_bytes(record.choices, self.layout.clients, length=self.log.own.length)
        round_id = record.moment.round
        if not set(choices.active) <= set(choices.present) & self.layout.label_holders:
            raise InvalidInput("active: only parties that are present and have labels can train")
        if (choices.closing and choices.active) or (round_id > self.settings.stop.rounds and not choices.closing):
            raise InvalidInput("closing: nobody trains in a closing round, nor after the last round of the settings")
        begun = RoundOnRecord(
            moment=record.moment,
            measuring=self.settings.measures(round_id, closing=choices.closing)
            and choices.present == self.layout.clients,
            active=choices.active,
            closing=choices.closing,
        )
        if choices.plan is not None and not choices.active:
            raise InvalidInput("plan: there is none if nobody may train")
        return begun if choices.plan is None else self._planned(begun, choices.plan)

    def _surveyed(self, current: RoundOnRecord, record: StampedRecord) -> RoundOnRecord:
        if current.plan is not None or not set(record.stamps) <= set(current.active):
            raise InvalidInput("survey: it comes before the plan, and asks parties that may train")
        answered = tuple(record.stamps)
        complete = len(answered) == len(current.active)
        surveyed = replace(current, active=answered, measuring=current.measuring and complete)
        if not answered:
            _check_no_choices(record)
            return surveyed
        return self._planned(surveyed, plan_from_bytes(record.choices, answered, length=self.log.own.length))

    def _planned(self, current: RoundOnRecord, plan: RecordedPlan) -> RoundOnRecord:
        names, own = self.settings.vectors, self.log.own
        plan.check_weights()
        if set(names.summed) & set(names.kept) and (
            plan.coordinates is not None or set(plan.weights.values()) != {1.0}
        ):
            raise InvalidInput("plan: vectors that are both summed and kept have the weight 1 and all coordinates")
        if plan.coordinates is not None and (names.restates or not own.shared_by_all):
            raise InvalidInput("plan.coordinates: can be chosen only if every party holds every feature")
        if plan.restating and names.restates:
            raise InvalidInput("plan.restating: every entry of this algorithm restates the state")
        self.settings.check_plan(plan, self._occasion(current))
        return replace(current, plan=plan)

    def _occasion(self, current: RoundOnRecord) -> Occasion:
        layout = self.layout
        return Occasion(
            round_id=current.id,
            clients=len(layout.clients),
            samples=layout.sample_count,
            party=layout.party,
            own_samples=len(layout.rows),
            length=self.log.own.length,
        )

    def _trained(self, current: RoundOnRecord, record: StampedRecord) -> "AveragingBook":
        """The book after the phase `local`: its entry, checkpoints, and the party's own memory."""
        ended = replace(
            current,
            local=record.stamps,
            figures=tuple(record.stamps.values()) if current.measuring else (),
        )
        given = {client: stamp for client, stamp in record.stamps.items() if client in current.trainers}
        if self.masked and len(given) != len(current.trainers):
            raise InvalidInput("record: masks cancel only if all contribute that were to train")
        if not given:
            _check_no_choices(record)
            return replace(self, round=ended)
        assert current.plan is not None, "whoever trains has a plan"
        told = closing_from_bytes(record.choices)
        self.settings.check_closing(told, current.plan, self._occasion(current))
        log = self.log
        if current.plan.restating:
            first = log.own.first_holders(current.trainers)
            log = log.with_checkpoints(
                current.id, {block: given[client] for block, client in first.items() if client in given}
            )
        log = log.with_entry(
            current.id, plan=current.plan, told=told, stamps=given, restates=self.settings.vectors.restates
        )
        return replace(
            self,
            round=ended,
            log=log,
            kept=given.get(self.layout.party, self.kept),
            kept_among=current.trainers if self.layout.party in given else self.kept_among,
            rounds_done=self.rounds_done + self._is_done(current, given),
        )

    def _is_done(self, current: RoundOnRecord, contributors: Collection[ClientId]) -> bool:
        """Whether all contributed that were to train, chosen among all label holders unless parties take turns."""
        chosen_among_all = self.layout.label_holders == frozenset(current.active)
        takes_turns = self.settings.participation_rule.kind != "all"
        return len(contributors) == len(current.trainers) and (chosen_among_all or takes_turns)


def _check_no_choices(record: StampedRecord) -> None:
    if record.choices:
        raise InvalidInput(f"record: the server has nothing to choose at the end of the phase {record.moment.phase!r}")
