"""c_k and γ_t, as the theorem that covers a run sets them; and a word for runs that none covers."""

from dataclasses import dataclass

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout


@dataclass(frozen=True, slots=True)
class StepRule:
    """How far a round goes.

    Attributes
    ----------
    proportional
        c_k = N_k/N if set, else 1.
    diminishing
        γ_t = 1/t if set, else 1.
    gamma
        Overrides γ_t.
    note
        What the theorems do not promise; empty where one of them covers the run.
    """

    proportional: bool
    diminishing: bool
    gamma: float | None
    note: str

    def step_scale(self, held: int, sample_count: int) -> float:
        return held / sample_count if self.proportional else 1.0

    def gamma_at(self, round_id: RoundId) -> float:
        if self.gamma is not None:
            return self.gamma
        return 1.0 / round_id if self.diminishing else 1.0


def step_rule(settings: HyfdcaSettings, layout: FederationLayout, held: dict[ClientId, int]) -> StepRule:
    """The rule for a run, given how many labelled samples each label holder has."""
    if settings.local == "paper":
        note = "the practical variant has no convergence theorem; the gap is the only promise"
        return StepRule(proportional=False, diminishing=False, gamma=settings.gamma, note=note)
    kind = settings.participation_rule.kind
    equal = len(set(held.values())) == 1
    proportional, diminishing, note = True, False, ""
    if layout.is_horizontal and (equal or kind != "all"):
        proportional = False  # Theorem 4.8, which includes full participation
        if kind == "cyclic":
            note = "Theorem 4.8 speaks of random subsets, not of sets in turn"
        elif not equal:
            note = "Theorem 4.8 assumes that all clients hold equally many samples"
    elif kind == "cyclic" and layout.is_vertical:
        proportional, diminishing = False, True  # Theorem 4.11
        if len(layout.clients) % settings.participation_rule.cycle:
            note = "Theorem 4.11 assumes sets of equal size"
    elif kind != "all":
        note = f"no theorem covers {settings.participation} on samples that parties share"
    if settings.gamma is not None:
        note = "gamma is set by hand, which no theorem covers"
    if not _equal_draws(settings, held):
        note = "the theorems assume that every client updates equally many samples"
    return StepRule(proportional=proportional, diminishing=diminishing, gamma=settings.gamma, note=note)


def _equal_draws(settings: HyfdcaSettings, held: dict[ClientId, int]) -> bool:
    if isinstance(settings.h, int):
        return settings.h <= min(held.values())
    return settings.h == "auto" or len(set(held.values())) == 1
