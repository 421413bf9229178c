"""Convex losses with their conjugates and exact dual steps: of a margin for classes, of a residual for numbers."""

from typing import Final

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import FEASIBILITY_SLACK, Array, Deviation, Fit, Loss
from fenchel_common.losses.epsilon_insensitive import EpsilonInsensitive
from fenchel_common.losses.hinge import Hinge, SmoothedHinge, SquaredHinge
from fenchel_common.losses.huber import Huber
from fenchel_common.losses.logistic import Logistic
from fenchel_common.losses.squared import Squared

LOSSES: Final[dict[str, Loss]] = {
    loss.name: loss
    for loss in (
        Hinge(),
        SmoothedHinge(),
        SquaredHinge(),
        Logistic(),
        Squared(),
        Huber(),
        EpsilonInsensitive(),
    )
}


def loss_named(name: str) -> Loss:
    try:
        return LOSSES[name]
    except KeyError:
        raise InvalidInput(f"loss: {name!r} is unknown; choose one of {', '.join(LOSSES)}") from None


__all__ = ["FEASIBILITY_SLACK", "LOSSES", "Array", "Deviation", "Fit", "Loss", "loss_named"]
