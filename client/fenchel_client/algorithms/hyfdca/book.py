"""What a party knows of a HyFDCA run by its records: the round under way, and the origins of every sum that it opens.

    norms      of a block: the preparations of all its holders
    products   of a block: the latest that each holder has given; of this very round for every holder that takes part
    w          of a block of features: the latest contribution of each holder when the model entered the round; in
               `inner_product_after` the latest of all
    α          of a block: its last restatement, if there is one, and all changes from then on
    figures    the contributions of all parties, or none

A party gives figures only if w holds its present α: all changes of its blocks come before its latest contribution.
Which blocks a message covered is on no record: it follows from the round's choices by `RoundRules`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_client.algorithms.duals import NORMS
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import PHASES, SYNC, SampleRange
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices, RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.hyfdca.steps import StepRule
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND
from fenchel_common.setup import BEFORE_ROUNDS, Company
from fenchel_common.wire.hyfdca_records import left_out_from_bytes, round_choices_from_bytes

CONTRIBUTION: Final = "contribution"
PRODUCTS: Final = "products"
CHANGES: Final = "changes"
RESTATED: Final = "restated"
FIGURES: Final = "figures"
"""The fields of results that have vectors."""


@dataclass(frozen=True, slots=True)
class AlphaOnRecord:
    """The dual variables of a block that are no longer zero.

    Attributes
    ----------
    version
        Their last change. A restatement changes no value, and makes no new version.
    origins
        The contributions of which the server's sum consists.
    """

    version: Origin
    origins: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class RoundOnRecord:
    """The round under way, as far as it has come.

    Attributes
    ----------
    rule
        The sizes of the steps.
    draws
        The samples that parties update, as far as they are samples of this party too.
    present
        The parties that take part, without those that have failed in a phase.
    phase
        The last phase on record.
    multiplied
        The parties whose answers in `inner_product` are on record.
    figures
        The contributions to the round's figures: those of all parties, or none.
    """

    rules: RoundRules
    rule: StepRule
    draws: Mapping[ClientId, tuple[SampleRange, ...]]
    present: frozenset[ClientId]
    phase: str = ROUND
    multiplied: frozenset[ClientId] = frozenset()
    figures: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class HyfdcaBook:
    """The book of HyFDCA at one party.

    Attributes
    ----------
    preparations
        The stamps of the parties' preparations.
    contributions, entered
        The stamp of each party's latest contribution to the model, now and when the model entered the round.
    products
        The stamp of the latest inner products of a block, by the block and the party that gave them.
    alpha
        The dual variables of each block of this party; a block is missing while they are zero.
    synced
        Whether this party's latest contribution to the model is made of its dual variables as they are on record.
    rounds_done
        The number of rounds with the steps of all parties that the rule of participation gives.
    """

    settings: HyfdcaSettings
    layout: ClientLayout
    preparations: Mapping[ClientId, Stamp] = field(default_factory=dict)
    contributions: Mapping[ClientId, Stamp] = field(default_factory=dict)
    entered: Mapping[ClientId, Stamp] = field(default_factory=dict)
    products: Mapping[tuple[int, ClientId], Stamp] = field(default_factory=dict)
    alpha: Mapping[int, AlphaOnRecord] = field(default_factory=dict)
    synced: bool = True
    rounds_done: int = 0
    current: RoundOnRecord | None = None

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`: none, because norms need all holders of a block, and figures all parties."""
        del self, phase
        return None

    def after(self, record: StampedRecord) -> "HyfdcaBook":
        """The book with one record more; `InvalidInput` if the server's choices in it are not admissible."""
        phase = record.moment.phase
        if phase in BEFORE_ROUNDS:
            if record.stamps.keys() != set(self.layout.clients):
                raise InvalidInput("record: every party must have answered to its layout")
            return replace(self, preparations=record.stamps)
        if phase == ROUND:
            return self._after_beginning(record)
        current = self.round_for(phase)
        left_out = left_out_from_bytes(record.choices, self.layout.clients)
        if not left_out | record.stamps.keys() <= current.present or left_out & record.stamps.keys():
            raise InvalidInput("parties: a phase has contributors and failed parties among those that take part")
        ended = replace(current, present=current.present - left_out, phase=phase)
        if phase in (SYNC, PRIMAL):
            return replace(self._with_contributions(record), current=ended)
        if phase == LOCAL_DUAL:
            return self._after_steps(record, current, ended)
        if phase == INNER_PRODUCT:
            ended = replace(ended, multiplied=frozenset(record.stamps))
        return replace(self, products=self._products_after(record), current=ended)

    def round_for(self, phase: str) -> RoundOnRecord:
        """The round under way, in which this phase must be still to come; else `InvalidInput`."""
        if phase not in PHASES:
            raise InvalidInput(f"phase: HyFDCA has no phase {phase!r}")
        current = self.current
        if current is None or (current.phase != ROUND and PHASES.index(phase) <= PHASES.index(current.phase)):
            raise InvalidInput(f"phase: {phase} cannot follow here")
        return current

    def norms_of(self, block: int) -> list[Origin]:
        """The origins of ‖x_i‖²."""
        return [Origin(self.preparations[holder], NORMS) for holder in self.layout.holders[block]]

    def products_of(self, block: int) -> list[Origin]:
        """The origins of x_i·w."""
        given = (self.products.get((block, holder)) for holder in self.layout.holders[block])
        return [Origin(stamp, PRODUCTS) for stamp in given if stamp is not None]

    def check_products(self, blocks: Iterable[int]) -> None:
        """Raises `InvalidInput` unless all holders that take part gave inner products of these blocks in this round.

        Older ones would be of another model. A holder that failed takes part no longer, and its latest ones count.
        """
        current = self.round_for(LOCAL_DUAL)
        for block in blocks:
            if not current.present.intersection(self.layout.holders[block]) <= current.multiplied:
                raise InvalidInput("products: a party that takes part has given none in this round")

    def alpha_of(self, block: int) -> tuple[Origin, ...]:
        """The origins of α; none if it is zero."""
        return self.alpha[block].origins if block in self.alpha else ()

    def entered_model_of(self, block: int) -> list[Origin]:
        """The origins of the w that entered the round, in a block of features; none if it is zero."""
        return self._model_of(block, self.entered)

    def latest_model_of(self, block: int) -> list[Origin]:
        """The origins of w after the round's last contributions."""
        return self._model_of(block, self.contributions)

    def blocks_asked_in(self, phase: str) -> tuple[int, ...]:
        """The blocks of which this party's inner products are due, ascending."""
        shared = [block for block, held_by in self.layout.holders.items() if len(held_by) > 1]
        current = self.round_for(phase)
        if phase == INNER_PRODUCT and current.rules.asks_drawn_blocks_alone(current.present):
            drawn = {part.block for ranges in current.draws.values() for part in ranges}
            return tuple(block for block in shared if block in drawn)
        return tuple(shared)

    def blocks_restated_by(self, party: ClientId) -> tuple[int, ...]:
        """Of this party's blocks, those whose dual variables a party states anew in `local_dual`, ascending."""
        current = self.round_for(LOCAL_DUAL)
        labelled = self.layout.label_holders & current.present
        return tuple(
            block
            for block, on_record in sorted(self.alpha.items())
            if current.rules.restates(len(on_record.origins))
            and next((holder for holder in self.layout.holders[block] if holder in labelled), None) == party
        )

    def divisor(self, block: int) -> int:
        """|B_n| of a block in the round under way."""
        labelled = [holder for holder in self.layout.holders[block] if holder in self.layout.label_holders]
        return self.round_for(LOCAL_DUAL).rules.divisor(labelled)

    def _model_of(self, block: int, stamps: Mapping[ClientId, Stamp]) -> list[Origin]:
        held_by = self.layout.feature_holders[block]
        return [Origin(stamps[holder], CONTRIBUTION) for holder in held_by if holder in stamps]

    def _after_beginning(self, record: StampedRecord) -> "HyfdcaBook":
        choices = round_choices_from_bytes(record.choices, self.layout.clients, self.layout.label_holders)
        if record.stamps:
            raise InvalidInput("record: the beginning of a round has no contributors")
        if self.current is not None and self.current.rules.choices.closing:
            raise InvalidInput("closing: no round follows a closing round")
        self._check_own_share(choices)
        rules = RoundRules(self.settings, self.layout.clients, record.moment.round, choices)
        rules.check_choices()
        cohorts = [opened.cohort for opened in self.layout.cohorts if not opened.cohort.features]
        draws = {
            party: tuple(
                part
                for cohort in cohorts
                if party in cohort.holders
                for part in rules.drawn(party, dict(zip(cohort.blocks, cohort.sizes, strict=True)))
            )
            for party in choices.shares
        }
        rule = step_rule_of(self.settings, self.layout, proportional=choices.proportional)
        if self.current is not None and self.current.rule != rule:
            raise InvalidInput("proportional: must be the same in all rounds")
        current = RoundOnRecord(rules, rule, draws, rules.first_present)
        return replace(self, current=current, entered=self.contributions)

    def _check_own_share(self, choices: RoundChoices) -> None:
        """The number of samples that the settings fix is not the server's to choose."""
        share = choices.shares.get(self.layout.party)
        if share is None or self.settings.h == "auto":
            return
        own = int(self.layout.block_sizes.sum())
        if share != Pace().samples(self.settings, {self.layout.party: own}, self.layout.party) / own:
            raise InvalidInput("shares: this party's share is not the one that h gives")

    def _with_contributions(self, record: StampedRecord) -> "HyfdcaBook":
        contributions = {**self.contributions, **record.stamps}
        entered = contributions if record.moment.phase == SYNC else self.entered
        synced = self.synced or self.layout.party in record.stamps
        return replace(self, contributions=contributions, entered=entered, synced=synced)

    def _after_steps(self, record: StampedRecord, current: RoundOnRecord, ended: RoundOnRecord) -> "HyfdcaBook":
        changed = any(current.draws.get(party) for party in record.stamps)
        return replace(
            self,
            alpha=self._alpha_after(record, current),
            synced=self.synced and not changed,
            rounds_done=self.rounds_done + current.rules.is_done(record.stamps, ended.present),
            current=replace(ended, figures=_figures_given(record, current)),
        )

    def _products_after(self, record: StampedRecord) -> dict[tuple[int, ClientId], Stamp]:
        given = {
            (block, party): record.stamps[party]
            for block in self.blocks_asked_in(record.moment.phase)
            for party in self.layout.holders[block]
            if party in record.stamps
        }
        return {**self.products, **given}

    def _alpha_after(self, record: StampedRecord, current: RoundOnRecord) -> dict[int, AlphaOnRecord]:
        alpha = dict(self.alpha)
        for party, stamp in record.stamps.items():
            for block in self.blocks_restated_by(party):
                alpha[block] = replace(alpha[block], origins=(Origin(stamp, RESTATED),))
        for party, stamp in record.stamps.items():
            change = Origin(stamp, CHANGES)
            for block in {part.block for part in current.draws.get(party, ())}:
                before = alpha[block].origins if block in alpha else ()
                alpha[block] = AlphaOnRecord(change, (*before, change))
        return alpha


def _figures_given(record: StampedRecord, current: RoundOnRecord) -> tuple[Origin, ...]:
    """The contributions to the figures in `local_dual`: those of all parties, or none."""
    if not current.rules.asks_figures(current.present) or not current.rules.is_complete(record.stamps):
        return ()
    return tuple(Origin(stamp, FIGURES) for stamp in record.stamps.values())


def step_rule_of(settings: HyfdcaSettings, layout: ClientLayout, *, proportional: bool) -> StepRule:
    """The sizes of the steps in a run; `InvalidInput` if they are not as a theorem sets them.

    Whether steps are `proportional` to the parties' numbers of samples can depend on parties with which this party has
    no sample in common. A party that shares samples knows it.
    """
    theory = settings.local == "theory"
    everywhere = len(layout.clients) > 1 and int(layout.block_sizes.sum()) == layout.sample_count
    vertical = everywhere and all(held_by == layout.clients for held_by in layout.holders.values())
    diminishing = theory and settings.participation_rule.kind == "cyclic" and vertical
    scaled = theory and not diminishing
    if (proportional and not scaled) or (scaled and layout.shared.any() and not proportional):
        raise InvalidInput("proportional: is not as the theorem for this run sets it")
    return StepRule(proportional=proportional, diminishing=diminishing, gamma=settings.gamma)
