"""Random search over hyper-parameters: trials of an algorithm, and their metrics.

The loss of a trial is P(w) of the server's model, and the accuracy is that on samples that never train. A round's
runtime is that of a federation whose parties have a machine each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_common.errors import FenchelError
from fenchel_deploy.papers.choice import Metrics, Range, Trial, diverged
from fenchel_deploy.papers.metering import MeteredHalves, RoundCost

Array = NDArray[np.float64]
Tell = Callable[[str], None]
Values = Mapping[str, int | float]


class Running(Protocol):
    """A trial under way."""

    def round(self) -> RoundCost:
        """Makes a round and returns its cost; raises `FenchelError` if the algorithm cannot go on."""
        ...

    def model(self) -> Array:
        """The model that the server has."""
        ...


@dataclass(frozen=True, slots=True)
class HalvesRunning:
    """A trial by the real halves of any algorithm; `features` are the columns of the model."""

    federation: MeteredHalves
    features: tuple[str, ...]

    def round(self) -> RoundCost:
        return self.federation.metered_round()

    def model(self) -> Array:
        return self.federation.weights(self.features)


@dataclass(frozen=True, slots=True)
class Search:
    """What is searched.

    `start` begins a trial with drawn values, `loss` and `accuracy` judge a model, and `zero` is the first model.
    """

    ranges: Mapping[str, Range]
    start: Callable[[Values], Running]
    loss: Callable[[Array], float]
    accuracy: Callable[[Array], float]
    zero: Array
    rounds: int

    def trials(self, count: int, *, seed: int, tell: Tell) -> list[Trial]:
        """So many trials; each draws from a stream of its own, so that the first ones do not depend on their number."""
        found = []
        for number in range(count):
            rng = np.random.default_rng([seed, number])
            found.append(self.trial({name: bounds.drawn(rng) for name, bounds in self.ranges.items()}))
            shown = ", ".join(f"{name} = {value:.4g}" for name, value in found[-1].values.items())
            metrics = found[-1].metrics
            loss = "diverged" if metrics is None else f"loss {metrics.last_losses:.4g}"
            tell(f"trial {number + 1} of {count}: {shown}: {loss}")
        return found

    def trial(self, values: Values) -> Trial:
        """One trial; without metrics if it diverged."""
        run = self.start(values)
        losses, accuracies, costs = [self.loss(self.zero)], [self.accuracy(self.zero)], []
        for _ in range(self.rounds):
            try:
                costs.append(run.round())
                w = run.model()
            except FenchelError:
                # A party has values that no vector can hold.
                return Trial(values, None)
            losses.append(self.loss(w))
            accuracies.append(self.accuracy(w))
            if not np.isfinite(losses[-1]):
                break
        if diverged(losses):
            return Trial(values, None)
        work_s = fmean(cost.compute_s + cost.encryption_s + cost.server_s for cost in costs)
        return Trial(values, Metrics.of(losses, accuracies, work_s=work_s, trips=fmean(cost.trips for cost in costs)))
