"""The end of a round of corrective HyFDCA, as a function of the server's state and the clients' answers.

New dual variables replace the anchor only if the clients found that D is at least as large, and the ciphertexts of the
anchor are replaced in the same moment. A round in which a client fails before `primal` is void: the state keeps its
anchor, its best model and its pending points.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from fenchel_common.algorithms.corrective.messages import (
    ALPHA_FIELD,
    MODEL_FIELD,
    NUMBERS_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    WEIGHTS_FIELD,
    Objectives,
    PrimalChoices,
)
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.blocks import BlockSum
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.layout import FederationLayout
from fenchel_common.losses import Deviation
from fenchel_common.selection import LambdaPath
from fenchel_common.wire.corrective_snapshot import (
    CorrectiveState,
    Memories,
    PendingPoints,
    Reached,
    StoredAnchor,
)
from fenchel_server.algorithms.answers import check_agree
from fenchel_server.algorithms.certificate import Certificate, Rounding, reached_gap
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer
from fenchel_server.algorithms.corrective.round import CorrectiveRound
from fenchel_server.algorithms.intake import Answers, PhaseSums
from fenchel_server.algorithms.phased import ENDED_HERE
from fenchel_server.contract import Outcome

VOID: Final = "void: a party failed before the new dual variables were on record"
UNREPORTED: Final = "void: a party failed to report its part of the best model"
NOTHING_CHANGED: Final = PrimalChoices()
STANDSTILL: Final = "void: no sample had all its holders present"


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """The state after a round, and the content of the round's report.

    Attributes
    ----------
    choices
        What the record of `primal` says.
    void
        Why the round is void; empty if it is not.
    leg_over
        Whether the leg of a path ends with this round, and another one follows.
    outcome, reason
        How and why the run ends with this round; None and empty if it continues.
    """

    state: CorrectiveState
    choices: PrimalChoices = NOTHING_CHANGED
    void: str = ""
    certificate: Certificate | None = None
    leg_over: bool = False
    outcome: Outcome | None = None
    reason: str = ""


def void_end(state: CorrectiveState, answers: Answers[CorrectiveAnswer]) -> RoundEnd | None:
    """The end of a round that is void after a phase before `primal`; None if the round continues.

    The round is void if a client has failed, or if no client takes part.
    """
    if answers.good and not answers.failed:
        return None
    return RoundEnd(state, void=VOID if answers.failed else STANDSTILL)


def end_round(
    state: CorrectiveState,
    current: CorrectiveRound,
    answers: Answers[CorrectiveAnswer],
    *,
    settings: CorrectiveSettings,
    layout: FederationLayout,
) -> RoundEnd:
    """The end of a round whose clients have answered `primal`.

    Parameters
    ----------
    state
        As `begin_round` gave it, without the memories of clients that have failed since.
    answers
        The answers to `primal`.

    Raises
    ------
    InvalidInput
        If clients that opened the same figures disagree, or the run would end before the last leg of its path.
    """
    check_agree(
        ((answer.accepted, answer.objectives) for answer in answers.good.values()),
        "objectives: clients opened the same figures to different numbers",
    )
    numbers = answers.sums.total(NUMBERS_FIELD)
    if not answers.good:
        return RoundEnd(state, void=VOID)
    assert current.duals is not None, "`primal` follows `local_dual`"
    model = _reported_model(current, answers.sums)
    if model is None and current.closing:
        return RoundEnd(state, void=UNREPORTED)
    first = next(iter(answers.good.values()))
    weights = state.anchor.weights.overlaid_with(current.duals.by_block(WEIGHTS_FIELD))
    certificate = None
    if model is not None:
        # Of a feature that no participant holds, the weight stays.
        latest = BlockSum() if current.complete else state.released.overlaid_with(model)
        state = replace(state, model=model if current.complete else state.model, latest=latest)
        if first.objectives is not None:
            certificate = certified(first.objectives, state, settings=settings, layout=layout)
            figures = (certificate.primal, certificate.dual, certificate.gap, certificate.gap_error)
            state = replace(state, certified=Reached(*figures, first.objectives.accuracy))
    outcome, reason = _outcome(current, certificate, goal=settings.stop.gap)
    leg_over = False
    if not current.last_leg and current.closing:
        raise InvalidInput("the rounds of the run are used up before λ was chosen; allow more (stop.rounds)")
    if not current.last_leg:
        leg_over = certificate is not None and (outcome is not None or current.leg_over)
        outcome, reason = None, ""
    if outcome is None:
        assert numbers is not None, "a round that is not closing gives conjugates and products"
        if first.accepted:
            alpha = state.anchor.alpha.overlaid_with(current.duals.by_block(ALPHA_FIELD))
            state = replace(state, anchor=StoredAnchor(current.id, alpha, weights))
        state = _continued(state, current, answers, numbers, reported=model is not None)
    choices = PrimalChoices(accepted=first.accepted, reported=model is not None)
    return RoundEnd(state, choices, certificate=certificate, leg_over=leg_over, outcome=outcome, reason=reason)


def on_next_leg(state: CorrectiveState, path: LambdaPath, round_id: int, value: float | None) -> CorrectiveState:
    """The state with which the next leg begins, after a round that ended one; `value` is the metric of its model."""
    progress = state.progress if value is None else state.progress.with_value(value)
    following = progress.next_leg(round_id)
    if not path.starts_anew(following.leg):
        return replace(state, progress=following)
    memories = Memories(intact=state.memories.intact)
    return CorrectiveState(norms=state.norms, memories=memories, progress=following)


def _reported_model(current: CorrectiveRound, sums: PhaseSums) -> BlockSum | None:
    """The new best model on the participants' features; None if a client that reports on some of them has failed."""
    model = sums.by_block(MODEL_FIELD)
    due = sorted(block for blocks in current.blocks.values() for block in blocks.features)
    return model if list(model.blocks) == due else None


def _outcome(
    current: CorrectiveRound, certificate: Certificate | None, *, goal: float | None
) -> tuple[Outcome | None, str]:
    reached = None if certificate is None else reached_gap(certificate, goal)
    return reached or (ENDED_HERE if current.closing else (None, ""))


def _continued(
    state: CorrectiveState,
    current: CorrectiveRound,
    answers: Answers[CorrectiveAnswer],
    numbers: Vector,
    *,
    reported: bool,
) -> CorrectiveState:
    """The state with which the run continues: its clients have stored a memory, and new points are pending."""
    return replace(
        state,
        # If the new best model was not reported, the clients remember another one: all get the server's.
        memories=Memories(
            round_id=current.id,
            participants=state.memories.participants,
            intact=frozenset(answers.good) if reported else frozenset(),
        ),
        pending=PendingPoints(
            point=answers.sums.by_block(POINT_FIELD),
            vertex=answers.sums.by_block(VERTEX_FIELD),
            conjugates_and_products=numbers,
        ),
        relative_rounds=state.relative_rounds + (not current.complete),
    )


def certified(
    objectives: Objectives, state: CorrectiveState, *, settings: CorrectiveSettings, layout: FederationLayout
) -> Certificate:
    """P at the best model, D at the anchor, and a bound on the error of both by fixed point.

    D is evaluated at dual variables whose model the clients know up to `drift`. The error of P includes the rounding of
    the best model when the server puts it on record. In a run with a path, models that were rounded in an earlier leg
    have been multiplied since by the larger λ divided by that of this leg.
    """
    lambda_, loss = settings.leg(state.progress.leg).lambda_, settings.loss_function
    longer = settings.leg(0).lambda_ / lambda_
    rounding = Rounding.of(layout, contributions=len(layout.clients))
    drift = longer * rounding.model * (2 + state.relative_rounds + state.collapses)
    unit = settings.formats(len(layout.clients)).alpha.resolution
    drift += state.collapses * unit * objectives.row_norm / lambda_
    # Of errors with the mean e the root mean square is at most e·√N.
    mean = objectives.row_norm * longer * rounding.model + objectives.product_error
    off = rounding.predictions.times(longer).plus(Deviation(mean, mean * math.sqrt(layout.sample_count)))
    error = loss.mean_error(off, mean_loss=objectives.primal + rounding.figures) + (2.0 + lambda_) * rounding.figures
    error += lambda_ * (math.sqrt(max(objectives.squared_norm, 0.0)) * drift + drift * drift / 2.0)
    return Certificate(
        primal=objectives.primal,
        dual=objectives.dual,
        gap=objectives.primal - objectives.dual + error,
        gap_error=error,
        fit=settings.fit(objectives.accuracy),
    )
