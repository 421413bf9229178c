"""The certificate of a run with some of the parties, from the figures of the rounds in which all took part."""

import math
from dataclasses import replace

from fenchel_common.algorithms.corrective.messages import Objectives
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.layout import FederationLayout
from fenchel_common.losses import Deviation
from fenchel_common.wire.partial_snapshot import Best, PartialState
from fenchel_server.algorithms.certificate import Certificate, Rounding
from fenchel_server.algorithms.partial.round import PartialRound


def measure(
    current: PartialRound, told: Objectives | None, *, settings: PartialSettings, layout: FederationLayout
) -> None:
    """Takes what the clients told of the model that a round has measured, if it has."""
    if not current.measures or told is None:
        return
    rounds = len(current.progress.rounds)
    best, current.better = certified(told, current.state, rounds=rounds, settings=settings, layout=layout)
    current.state = replace(current.state, best=best)
    current.certificate = certificate_of(best, settings)


def certified(
    objectives: Objectives, state: PartialState, *, rounds: int, settings: PartialSettings, layout: FederationLayout
) -> tuple[Best, bool]:
    """The certificate with the figures of one round more, and whether the measured model is the best one so far.

    D is evaluated at dual variables whose model the clients know up to `drift`: in each of the `rounds` so far a pair's
    models were rounded, as differences from the anchor's, and before the first of them the anchor was rounded. The
    error of P includes the rounding of the model on record.
    """
    lambda_, loss, best = settings.lambda_, settings.loss_function, state.best
    rounding = Rounding.of(layout, contributions=len(layout.clients))
    drift = rounding.model * (2 + rounds)
    if state.start is not None:
        unit = settings.formats(len(layout.clients)).alpha.resolution
        drift += state.start.model_roundings * rounding.model
        drift += state.start.alpha_roundings * unit * objectives.row_norm / lambda_
    mean = objectives.row_norm * rounding.model
    off = rounding.predictions.plus(Deviation(mean, mean * math.sqrt(layout.sample_count)))
    primal_error = loss.mean_error(off, mean_loss=objectives.primal + rounding.figures) + lambda_ * rounding.figures
    length = math.sqrt(max(objectives.squared_norm, 0.0))
    dual_error = 2.0 * rounding.figures + lambda_ * (length * drift + drift * drift / 2.0)
    better = best is None or objectives.primal < best.primal
    if best is None or better:
        primal, error, accuracy = objectives.primal, primal_error, objectives.accuracy
    else:
        primal, error, accuracy = best.primal, best.primal_error, best.accuracy
    dual = objectives.dual
    if best is not None and best.dual - best.dual_error > dual - dual_error:
        dual, dual_error = best.dual, best.dual_error
    return Best(primal, dual, error, dual_error, accuracy), better


def certificate_of(best: Best, settings: PartialSettings) -> Certificate:
    error = best.primal_error + best.dual_error
    return Certificate(
        primal=best.primal,
        dual=best.dual,
        gap=best.primal - best.dual + error,
        gap_error=error,
        fit=settings.fit(best.accuracy),
    )
