"""`fenchel tune --objective pareto`: hyper-parameters of any algorithm by random search and grey relational analysis.

Every trial is a federation in this process, in clear, by the real halves of the algorithm: no key is made, and nothing
is sent. `fenchel_deploy.papers.choice` says how one of the trials is chosen.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.fitting import check_loss, check_partition
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.privacy import Privacy
from fenchel_deploy.demonstration import DemonstrationOptions, Report
from fenchel_deploy.papers.choice import Range, judged
from fenchel_deploy.papers.metering import MeteredHalves
from fenchel_deploy.papers.search import HalvesRunning, Search, Tell, Values
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES

RATE: Final = Range(1e-5, 25.0)
USUAL_RANGES: Final[Mapping[str, Mapping[str, Range]]] = {
    "hyfdca": {"h": Range(1e-3, 1.0)},
    "fedavg": {"local_steps": Range(1e-3, 5.0), "a": RATE, "b": RATE},
    "hyfem": {"local_steps": Range(1e-3, 5.0), "a": RATE, "b": RATE, "mu": Range(1e-2, 1e4)},
}
"""The ranges of the HyFDCA paper's supplement; HyFDCA's h and `local_steps` are shares of a party's rows."""
FIXED: Final[Mapping[str, Mapping[str, object]]] = {
    "hyfdca": {"local": "paper", "certificate_every": 0},
}
"""Settings that are not searched and differ from the defaults: with corrective steps there is nothing to tune."""


@dataclass(frozen=True, slots=True)
class ParetoOptions:
    """What is searched; `held_out` is the share of the samples that never train."""

    demonstration: DemonstrationOptions
    held_out: float
    trials: int
    rounds: int
    ranges: Mapping[str, Range] = field(default_factory=dict)


def run_pareto_tune(options: ParetoOptions, tell: Tell) -> Report:
    """The trials with their metrics and grades; the chosen one has `chosen`."""
    chosen, algorithm = options.demonstration, options.demonstration.algorithm
    check_partition(algorithm, chosen.partition)
    check_loss(algorithm, chosen.loss)
    basis = chosen.parsed()
    if LOSSES[basis.loss].regression:
        raise InvalidInput(f"--loss: {basis.loss} predicts numbers, and one of the metrics is the accuracy of classes")
    ranges = options.ranges or USUAL_RANGES.get(algorithm, {})
    if not ranges:
        known = ", ".join(SETTINGS[algorithm].parameters())
        raise InvalidInput(
            f"--range: no ranges of {algorithm} are known; give --range NAME=LOW:HIGH for some of {known}"
        )
    search = _search(options, ranges)
    trials = judged(search.trials(options.trials, seed=chosen.seed, tell=tell))
    return {
        "algorithm": algorithm,
        "dataset": chosen.dataset,
        "loss": basis.loss,
        "lambda": basis.lambda_,
        "rounds": options.rounds,
        "trials": [
            {
                "values": dict(one.trial.values),
                "metrics": None if one.trial.metrics is None else asdict(one.trial.metrics),
                "grade": one.grade,
                "chosen": one.chosen,
            }
            for one in trials
        ],
    }


def _search(options: ParetoOptions, ranges: Mapping[str, Range]) -> Search:
    chosen, basis = options.demonstration, options.demonstration.parsed()
    whole = load_dataset(chosen.dataset)
    order = np.random.default_rng([chosen.seed, 1]).permutation(len(whole.y))
    held_out, kept = np.split(order, [max(1, round(options.held_out * len(order)))])
    training = Dataset(whole.name, whole.X[kept], whole.y[kept], whole.features)
    X_validation, y_validation = whole.X[held_out], whole.y[held_out]
    shards = partition(training, grid=chosen.grid, seed=chosen.seed)

    def parsed(values: Values) -> AlgorithmSettings:
        given = {"loss": basis.loss, "lambda": basis.lambda_, **FIXED.get(chosen.algorithm, {}), **values}
        stop = {"gap": None, "rounds": options.rounds}
        level = {"privacy": Privacy.PLAIN, "seed": chosen.seed, "stop": stop}
        try:
            return SETTINGS[chosen.algorithm].parse({**given, **level})
        except InvalidConfig as error:
            raise InvalidInput(f"--range: {error}") from None

    def start(values: Values) -> HalvesRunning:
        settings = parsed(values)
        family = settings.family.name
        federation = MeteredHalves(
            shards,
            settings,
            client_half=CLIENT_HALVES[family][chosen.algorithm],
            server_half=SERVER_HALVES[family][chosen.algorithm],
        )
        return HalvesRunning(federation, training.features)

    loss = LOSSES[basis.loss]
    return Search(
        ranges=ranges,
        start=start,
        loss=lambda w: primal(training.X, training.y, w, loss=loss, lambda_=basis.lambda_),
        accuracy=lambda w: float(np.mean(np.where(X_validation @ w >= 0.0, 1.0, -1.0) == y_validation)),
        zero=np.zeros(len(training.features)),
        rounds=options.rounds,
    )
