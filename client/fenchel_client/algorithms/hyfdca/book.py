"""What a party knows of a HyFDCA run by its records: the round under way, and the origins of every sum that it opens.

    norms      of a block: the preparations of all its holders
    products   of a block: the latest that each holder has given; of this very round for every holder that takes part
    w          of a block of features: the latest contribution of each holder when the model entered the round; in
               `inner_product_after` the latest of all
    α          of a block: its last restatement, if there is one, and all changes from then on
    figures    the contributions of all parties, or none

To a block of samples or features contribute in a phase all of its holders that take part; to the changes of a block
all that draw from it. If one of them fails, what the others gave in that phase counts for nothing on the block: masks
between them do not cancel. Nobody updates a block in a round in which its inner products were given up like this.

A party gives figures only if w holds its present α: all changes of its blocks come before its latest contribution.
Which blocks a message covered is on no record: it follows from the round's choices by `RoundRules`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fenchel_client.algorithms.codec import Among
from fenchel_client.algorithms.duals import NORMS
from fenchel_client.algorithms.hyfdca.latest import LatestContributions
from fenchel_client.algorithms.hyfdca.roundonrecord import RoundOnRecord, step_rule_of
from fenchel_client.companies import company_of
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL, PRIMAL
from fenchel_common.algorithms.hyfdca.messages import PHASES, SYNC
from fenchel_common.algorithms.hyfdca.pace import Pace
from fenchel_common.algorithms.hyfdca.rounds import RoundChoices, RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
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
class HyfdcaBook:
    """The book of HyFDCA at one party.

    Attributes
    ----------
    preparations
        The stamps of the parties' preparations.
    contributions, entered
        The latest contributions to the model, by block of features, now and when the model entered the round.
    products
        The latest inner products, by block of samples.
    alpha
        The dual variables of each block of this party; a block is missing while they are zero.
    synced
        Whether this party's latest contribution to the model is made of its dual variables as they are on record.
    rounds_done
        The number of rounds with the steps of all parties that the rule of participation gives.
    """

    settings: HyfdcaSettings
    layout: ClientLayout
    contributions: LatestContributions
    entered: LatestContributions
    products: LatestContributions
    preparations: Mapping[ClientId, Stamp] = field(default_factory=dict)
    alpha: Mapping[int, AlphaOnRecord] = field(default_factory=dict)
    synced: bool = True
    rounds_done: int = 0
    current: RoundOnRecord | None = None

    @classmethod
    def first(cls, settings: HyfdcaSettings, layout: ClientLayout) -> "HyfdcaBook":
        """The book before the first record."""
        model = LatestContributions(layout.party, CONTRIBUTION)
        products = LatestContributions(layout.party, PRODUCTS)
        return cls(settings, layout, contributions=model, entered=model, products=products)

    def company(self, phase: str) -> Company | None:
        """As for `Book.company`, if this party contributes to a block of three or more holders: those that take part.

        The state is what is on record of this party's blocks when the round begins. A phase that counts leaves another
        one; a round that is void on all blocks of this party, or begun anew, has the same.
        """
        if not self._is_to_come(phase) or self.current is None:
            return None
        held_by = self.layout.feature_holders if phase in (SYNC, PRIMAL) else self.layout.holders
        contributors = self.contributors_in(phase)
        hidden = [block for block, given_by in contributors.items() if self.layout.party in given_by]
        if all(len(held_by[block]) < 3 for block in hidden):
            return None
        holders = (*self.layout.feature_holders.values(), *self.layout.holders.values())
        beside = {client for one in holders if len(one) > 2 for client in one}
        return company_of(self.current.begun_from, dict.fromkeys(self.current.rules.first_present & beside, 1.0))

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
        due = self.contributors_in(phase)
        ended = replace(current.without(left_out), phase=phase)
        if phase in (SYNC, PRIMAL):
            book = self._with_contributions(record, due)
        elif phase == LOCAL_DUAL:
            book, ended = self._after_steps(record, current, ended)
        else:
            book = replace(self, products=self.products.after(record, due))
        if phase == INNER_PRODUCT:
            void = [block for block, held_by in self.layout.holders.items() if left_out.intersection(held_by)]
            ended = replace(ended.without(left_out, void), multiplied=frozenset(record.stamps))
        return replace(book, current=ended)

    def round_for(self, phase: str) -> RoundOnRecord:
        """The round under way, in which this phase must be still to come; else `InvalidInput`."""
        if phase not in PHASES:
            raise InvalidInput(f"phase: HyFDCA has no phase {phase!r}")
        if self.current is None or not self._is_to_come(phase):
            raise InvalidInput(f"phase: {phase} cannot follow here")
        return self.current

    def _is_to_come(self, phase: str) -> bool:
        """Whether a phase is still to come in the round under way."""
        if phase not in PHASES or self.current is None:
            return False
        return self.current.phase == ROUND or PHASES.index(phase) > PHASES.index(self.current.phase)

    def norms_of(self, block: int) -> list[Origin]:
        """The origins of ‖x_i‖²."""
        return [Origin(self.preparations[holder], NORMS) for holder in self.layout.holders[block]]

    def products_of(self, block: int) -> list[Origin]:
        """The origins of x_i·w."""
        return self.products.origins_of(block, self.layout.holders[block])

    def check_products(self, blocks: Iterable[int]) -> None:
        """Raises `InvalidInput` unless all holders that take part gave inner products of these blocks in this round.

        Older ones would be of another model. Of a holder that failed in `sync`, and so takes part no longer, they do.
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
        return self.entered.origins_of(block, self.layout.feature_holders[block])

    def latest_model_of(self, block: int) -> list[Origin]:
        """The origins of w after the round's last contributions."""
        return self.contributions.origins_of(block, self.layout.feature_holders[block])

    def contributors_in(self, phase: str) -> dict[int, tuple[ClientId, ...]]:
        """The parties that contribute in a phase to each of this party's blocks, if they do not fail.

        The blocks are those of features in `sync` and `primal`, drawn ones in `local_dual`, and else those whose inner
        products are due.
        """
        current = self.round_for(phase)
        if phase == LOCAL_DUAL:
            return current.drawers()
        blocks = self.layout.feature_holders if phase in (SYNC, PRIMAL) else self.layout.holders
        asked = blocks if phase in (SYNC, PRIMAL) else self.blocks_asked_in(phase)
        return {block: tuple(one for one in blocks[block] if one in current.present) for block in asked}

    def among(self, phase: str) -> Among:
        """The partners with whom this party contributes to its blocks in a phase."""
        contributors = self.contributors_in(phase)
        if phase == LOCAL_DUAL:
            return lambda block, _: dict.fromkeys(contributors[block])
        latest = self.contributions if phase in (SYNC, PRIMAL) else self.products
        return lambda block, holders: latest.partners(block, holders, contributors[block])

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
        current = RoundOnRecord(rules, rule, draws, rules.first_present, begun_from=self._newest())
        return replace(self, current=current, entered=self.contributions)

    def _newest(self) -> tuple[Stamp, ...]:
        """The messages that made what is on record of this party's blocks."""
        changes = (self.alpha[block].version.stamp for block in sorted(self.alpha))
        return (*self.contributions.in_order(), *self.products.in_order(), *changes)

    def _check_own_share(self, choices: RoundChoices) -> None:
        """The number of samples that the settings fix is not the server's to choose."""
        share = choices.shares.get(self.layout.party)
        if share is None or self.settings.h == "auto":
            return
        own = int(self.layout.block_sizes.sum())
        if share != Pace().samples(self.settings, {self.layout.party: own}, self.layout.party) / own:
            raise InvalidInput("shares: this party's share is not the one that h gives")

    def _with_contributions(self, record: StampedRecord, due: Mapping[int, tuple[ClientId, ...]]) -> "HyfdcaBook":
        contributions = self.contributions.after(record, due)
        entered = contributions if record.moment.phase == SYNC else self.entered
        given = self.layout.party in record.stamps and all(record.stamps.keys() >= set(one) for one in due.values())
        return replace(self, contributions=contributions, entered=entered, synced=self.synced or given)

    def _after_steps(
        self, record: StampedRecord, current: RoundOnRecord, ended: RoundOnRecord
    ) -> tuple["HyfdcaBook", RoundOnRecord]:
        alpha, figures = self._alpha_after(record, current), _figures_given(record, current)
        changed = any(on_record.version != _version(self.alpha, block) for block, on_record in alpha.items())
        done = current.rules.is_done(record.stamps, ended.present)
        book = replace(self, alpha=alpha, synced=self.synced and not changed, rounds_done=self.rounds_done + done)
        # Without figures to open, parties that update no samples have no part in the rest of the round.
        present = ended.present if figures else ended.present & ended.rules.choices.active
        return book, replace(ended, figures=figures, present=present)

    def _alpha_after(self, record: StampedRecord, current: RoundOnRecord) -> dict[int, AlphaOnRecord]:
        alpha = dict(self.alpha)
        for party, stamp in record.stamps.items():
            for block in self.blocks_restated_by(party):
                alpha[block] = replace(alpha[block], origins=(Origin(stamp, RESTATED),))
        for block, parties in current.drawers().items():
            if record.stamps.keys() >= set(parties):
                changes = [Origin(record.stamps[party], CHANGES) for party in parties]
                before = alpha[block].origins if block in alpha else ()
                alpha[block] = AlphaOnRecord(changes[-1], (*before, *changes))
        return alpha


def _version(alpha: Mapping[int, AlphaOnRecord], block: int) -> Origin | None:
    return alpha[block].version if block in alpha else None


def _figures_given(record: StampedRecord, current: RoundOnRecord) -> tuple[Origin, ...]:
    """The contributions to the figures in `local_dual`: those of all parties, or none."""
    if not current.rules.asks_figures(current.present) or not current.rules.is_complete(record.stamps):
        return ()
    return tuple(Origin(stamp, FIGURES) for stamp in record.stamps.values())
