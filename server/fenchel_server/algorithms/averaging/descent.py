"""Bases of the server halves of algorithms whose clients hold whole rows; they measure each client's accuracy."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.descent import DescentSettings
from fenchel_common.algorithms.averaging.rails import ACCURACY
from fenchel_common.algorithms.averaging.scaffpd import RobustSettings
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.plan import Closing, Numbers, Plan
from fenchel_server.algorithms.averaging.rails import AveragingServer
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]

TAIL: Final = 0.2
S = TypeVar("S", bound=DescentSettings)
R = TypeVar("R", bound=RobustSettings)


def accuracies(measured: Mapping[ClientId, Numbers]) -> list[float]:
    """The accuracy that each client told."""
    return [numbers[ACCURACY] for numbers in measured.values()]


def accuracy_spread(accuracies: Sequence[float]) -> dict[str, float]:
    """The mean accuracy over all clients, over the worst fifth and over the best fifth of them (SCAFF-PD, C.2)."""
    rising = np.sort(np.asarray(accuracies, dtype=np.float64))
    tail = max(1, round(TAIL * len(rising)))
    return {
        "average_accuracy": float(rising.mean()),
        "worst_20_accuracy": float(rising[:tail].mean()),
        "best_20_accuracy": float(rising[-tail:].mean()),
    }


class DescentServer(AveragingServer[S]):
    """Measures how the accuracies of the clients differ, on their training rows; regression has none."""

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        return accuracy_spread(accuracies(measured)) if self.settings.measured else {}


class RobustServer(DescentServer[R]):
    """Keeps a weight λ_i and the last known loss of every client.

    Attributes
    ----------
    stepped
        The memory after the dual step of the round under way, which `plan` sets. `close` makes it the server's memory
        once vectors of clients have come.
    """

    stepped: Mapping[str, float] = {}

    def close(self, plan: Plan, reports: Mapping[ClientId, Numbers]) -> Closing:
        del reports
        return Closing(plan.told, self.stepped)

    @property
    def ambiguity(self) -> Ambiguity:
        settings = self.settings
        if settings.ambiguity == "cvar":
            return Ambiguity(cap=settings.largest_weight(len(self.layout.clients)))
        return Ambiguity(settings.rho)

    @property
    def weights(self) -> Array:
        """λ, in the order of the clients; all weights are equal in the beginning."""
        count = len(self.layout.clients)
        return np.array([self.memory.get(f"weight_{position}", 1.0 / count) for position in range(count)])

    def figures(self, measured: Mapping[ClientId, Numbers]) -> Numbers:
        weights = self.weights
        return {**super().figures(measured), "largest_weight": float(weights.max())}

    def known_losses(self, surveys: Mapping[ClientId, Numbers]) -> Array:
        """The losses in the order of the clients.

        For a client without a survey: its last known loss, or the mean of the others if there is none.
        """
        surveyed = {client: numbers["loss"] for client, numbers in surveys.items()}
        mean = float(np.mean(list(surveyed.values())))
        return np.array(
            [
                surveyed.get(client, self.memory.get(f"loss_{position}", mean))
                for position, client in enumerate(self.layout.clients)
            ]
        )

    def by_client(self, weights: Array) -> dict[ClientId, float]:
        return dict(zip(self.layout.clients, weights.tolist(), strict=True))

    @staticmethod
    def remembered(weights: Array, losses: Array) -> dict[str, float]:
        """λ and the losses as numbers of the server's memory."""
        return {f"weight_{position}": float(value) for position, value in enumerate(weights)} | {
            f"loss_{position}": float(value) for position, value in enumerate(losses)
        }
