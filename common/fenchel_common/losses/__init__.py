"""Convex losses of a margin, with their conjugates and exact dual steps."""

from typing import Final

from fenchel_common.errors import InvalidInput
from fenchel_common.losses.base import FEASIBILITY_SLACK, Array, Loss
from fenchel_common.losses.hinge import Hinge, SmoothedHinge
from fenchel_common.losses.logistic import Logistic

LOSSES: Final[dict[str, Loss]] = {loss.name: loss for loss in (Hinge(), SmoothedHinge(), Logistic())}


def loss_named(name: str) -> Loss:
    try:
        return LOSSES[name]
    except KeyError:
        raise InvalidInput(f"loss: {name!r} is unknown; choose one of {', '.join(LOSSES)}") from None


__all__ = ["FEASIBILITY_SLACK", "LOSSES", "Array", "Hinge", "Logistic", "Loss", "SmoothedHinge", "loss_named"]
