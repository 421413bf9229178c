"""What the servers share of algorithms whose parties hold whole rows: how evenly a model serves the parties."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.averaging.descent import DescentSettings
from fenchel_common.algorithms.averaging.rails import Measurement
from fenchel_common.algorithms.averaging.scaffpd import RobustSettings
from fenchel_common.ids import ClientId
from fenchel_server.algorithms.averaging.plan import Numbers
from fenchel_server.algorithms.averaging.rails import AveragingServer
from fenchel_server.algorithms.averaging.simplex import Ambiguity

Array = NDArray[np.float64]

TAIL: Final = 0.2
S = TypeVar("S", bound=DescentSettings)
R = TypeVar("R", bound=RobustSettings)


def accuracies(measurements: Mapping[ClientId, Measurement]) -> list[float]:
    """The fraction of correct predictions of each party that has samples."""
    return [one.correct / one.samples for one in measurements.values() if one.samples]


def accuracy_spread(accuracies: Sequence[float]) -> dict[str, float]:
    """The mean over the parties, over the worst fifth and over the best fifth of them (SCAFF-PD, C.2)."""
    rising = np.sort(np.asarray(accuracies, dtype=np.float64))
    tail = max(1, round(TAIL * len(rising)))
    return {
        "average_accuracy": float(rising.mean()),
        "worst_20_accuracy": float(rising[:tail].mean()),
        "best_20_accuracy": float(rising[-tail:].mean()),
    }


class DescentServer(AveragingServer[S]):
    """Measures how evenly the model serves the parties, on the rows that they train on."""

    def figures(self, measurements: Mapping[ClientId, Measurement]) -> Numbers:
        return accuracy_spread(accuracies(measurements))


class RobustServer(DescentServer[R]):
    """Keeps a weight λ_i and the last known loss of every party."""

    @property
    def ambiguity(self) -> Ambiguity:
        settings = self.settings
        if settings.ambiguity == "cvar":
            return Ambiguity.cvar(settings.alpha, len(self.layout.clients))
        return Ambiguity(settings.rho)

    @property
    def weights(self) -> Array:
        """λ, by the order of the clients; all the same in the beginning."""
        count = len(self.layout.clients)
        return np.array([self.memory.get(f"weight_{place}", 1.0 / count) for place in range(count)])

    def figures(self, measurements: Mapping[ClientId, Measurement]) -> Numbers:
        weights = self.weights
        return {**super().figures(measurements), "largest_weight": float(weights.max())}

    def known_losses(self, surveys: Mapping[ClientId, Numbers]) -> Array:
        """The losses just told; of a party that is away the last one, or the mean of the others."""
        told = {client: numbers["loss"] for client, numbers in surveys.items()}
        otherwise = float(np.mean(list(told.values())))
        return np.array(
            [
                told.get(client, self.memory.get(f"loss_{place}", otherwise))
                for place, client in enumerate(self.layout.clients)
            ]
        )

    def by_client(self, weights: Array) -> dict[ClientId, float]:
        return dict(zip(self.layout.clients, weights.tolist(), strict=True))

    @staticmethod
    def remembered(weights: Array, losses: Array) -> dict[str, float]:
        """λ and the losses as the server's memory."""
        return {f"weight_{place}": float(value) for place, value in enumerate(weights)} | {
            f"loss_{place}": float(value) for place, value in enumerate(losses)
        }
