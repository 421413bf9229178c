"""A HyFDCA round under way as a party knows it by the records, and the sizes of its steps."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_common.algorithms.hyfdca.messages import SampleRange
from fenchel_common.algorithms.hyfdca.rounds import RoundRules
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.hyfdca.steps import StepRule
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.records import ROUND


@dataclass(frozen=True, slots=True)
class RoundOnRecord:
    """The round under way, as far as it has come.

    Attributes
    ----------
    rule
        The sizes of the steps.
    draws
        The samples that parties update, as far as they are samples of this party too; without those of parties that
        have failed and of blocks whose inner products were given up.
    present
        The parties that take part, without those that have failed in a phase.
    phase
        The last phase on record.
    multiplied
        The parties whose answers in `inner_product` are on record.
    figures
        The contributions to the round's figures: those of all parties, or none.
    begun_from
        The messages that made what is on record of this party's blocks when the round begins.
    """

    rules: RoundRules
    rule: StepRule
    draws: Mapping[ClientId, tuple[SampleRange, ...]]
    present: frozenset[ClientId]
    phase: str = ROUND
    multiplied: frozenset[ClientId] = frozenset()
    figures: tuple[Origin, ...] = ()
    begun_from: tuple[Stamp, ...] = ()

    def drawers(self) -> dict[int, tuple[ClientId, ...]]:
        """For each block that is updated, the parties that update it, in roster order."""
        drawers: dict[int, tuple[ClientId, ...]] = {}
        for party, ranges in self.draws.items():
            for block in sorted({part.block for part in ranges}):
                drawers[block] = (*drawers.get(block, ()), party)
        return drawers

    def without(self, failed: Collection[ClientId], void: Collection[int] = ()) -> "RoundOnRecord":
        """The round without parties that have failed and without updates of these blocks."""
        draws = {
            party: tuple(part for part in ranges if part.block not in void)
            for party, ranges in self.draws.items()
            if party not in failed
        }
        return replace(self, present=self.present - set(failed), draws=draws)


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
