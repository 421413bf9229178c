"""c_k and γ_t as set by the theorem that covers a run, and a note for runs that no theorem covers."""

from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.hyfdca.steps import StepRule
from fenchel_common.ids import ClientId
from fenchel_common.layout import FederationLayout


def step_rule(
    settings: HyfdcaSettings, layout: FederationLayout, sample_counts: dict[ClientId, int]
) -> tuple[StepRule, str]:
    """The rule for a run, and why no theorem covers the run; empty if one does.

    `sample_counts` has the number of labelled samples of each label holder.
    """
    if settings.local == "paper":
        note = "the practical variant has no convergence theorem; only the certified gap bounds the error"
        return StepRule(proportional=False, diminishing=False, gamma=settings.gamma), note
    kind = settings.participation_rule.kind
    equal = len(set(sample_counts.values())) == 1
    proportional, diminishing, note = True, False, ""
    if layout.is_horizontal and (equal or kind != "all"):
        proportional = False  # Theorem 4.8, which includes full participation
        if kind == "cyclic":
            note = "Theorem 4.8 covers random subsets of clients, not subsets that take turns"
        elif not equal:
            note = "Theorem 4.8 assumes that all clients hold equally many samples"
    elif kind == "cyclic" and layout.is_vertical:
        proportional, diminishing = False, True  # Theorem 4.11
        if len(layout.clients) % settings.participation_rule.cycle:
            note = "Theorem 4.11 assumes sets of equal size"
    elif kind != "all":
        note = f"no theorem covers {settings.participation} on shared samples"
    if settings.gamma is not None:
        note = "gamma is set by hand, which no theorem covers"
    if not _equal_draws(settings, sample_counts):
        note = "the theorems assume that every client updates equally many samples"
    return StepRule(proportional=proportional, diminishing=diminishing, gamma=settings.gamma), note


def _equal_draws(settings: HyfdcaSettings, sample_counts: dict[ClientId, int]) -> bool:
    if isinstance(settings.h, int):
        return settings.h <= min(sample_counts.values())
    return settings.h == "auto" or len(set(sample_counts.values())) == 1
