"""One training of a data set that is split over made-up hospitals, beside the centralized optimum.

What a demonstration on this machine and a federation in containers have in common: what can be varied, the problem,
the run's configuration, following the events, and the report.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fenchel_common import defaults, jsonrecord
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.fitting import check_loss, check_partition
from fenchel_common.algorithms.settings import AlgorithmSettings, Partition, Profile
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.heterogeneous import Split, dirichlet_rows, row_shards
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed, InvalidConfig
from fenchel_common.losses.base import Loss
from fenchel_common.objectives import primal
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.experiments.centralized import CentralizedSolution, solve_centralized
from fenchel_server.rounds.outcome import RunOutcome

LOG_CHARACTERS = 2000

Event = Mapping[str, Any]
Tell = Callable[[Event], None]
Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """What can be varied. `local` and `h` are HyFDCA's, `parameters` are further settings of any algorithm."""

    algorithm: str = defaults.ALGORITHM
    dataset: str = "breast_cancer"
    grid: tuple[int, int] = (2, 2)
    columns: Literal["contiguous", "shuffled"] = "contiguous"
    split: Split = field(default_factory=Split)
    loss: str = defaults.LOSS
    lambda_: float = defaults.LAMBDA
    local: Literal["paper", "theory", "corrective"] = defaults.LOCAL
    h: str | int | float | None = None
    participation: str = defaults.PARTICIPATION
    privacy: Privacy = defaults.PRIVACY
    key_bits: int = defaults.DEMO_KEY_BITS
    key_kind: Literal["standard", "subgroup"] = defaults.KEY_KIND
    gap: float | None = None
    rounds: int = defaults.ROUNDS
    seed: int = defaults.SEED
    parameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        return self.parsed().profile

    @property
    def partition(self) -> Partition:
        """How the grid splits the table."""
        row_groups, column_groups = self.grid
        return "horizontal" if column_groups == 1 else "vertical" if row_groups == 1 else "hybrid"

    def check(self) -> None:
        """Refuses an algorithm that is unknown or fits neither the grid nor the loss, and names those which do."""
        if self.algorithm not in SETTINGS:
            raise InvalidConfig(f"algorithm: {self.algorithm!r} is not one of: {', '.join(SETTINGS)}")
        check_partition(self.algorithm, self.partition)
        check_loss(self.algorithm, self.loss)
        if self.split.alpha is not None and self.grid[1] > 1:
            raise InvalidConfig("split: dirichlet deals out whole rows; use a grid of one column group, such as 4x1")

    @property
    def settings(self) -> dict[str, object]:
        """The algorithm's settings, as a configuration has them."""
        known = SETTINGS[self.algorithm].parameters()
        given = {"local": self.local, "h": self.h}
        own = {name: value for name, value in given.items() if name in known and value is not None}
        common = {"loss": self.loss, "lambda": self.lambda_, "participation": self.participation}
        return {**common, **own, **self.parameters}

    def parsed(self) -> AlgorithmSettings:
        """The algorithm's settings, checked."""
        return SETTINGS[self.algorithm].parse(self.settings)


class RunningFederation(Protocol):
    """A federation at work, wherever its processes are."""

    def events(self) -> Iterator[Event]:
        """The server's events as they come, until it ends."""
        ...

    def wait(self) -> Mapping[str, int]:
        """Waits until every process has ended by itself, and gives the exit codes by name."""
        ...

    def model(self, features: Sequence[str]) -> NDArray[np.float64]:
        """The whole model, put together from the parts that the parties got."""
        ...

    def log(self, name: str) -> str:
        """What a process wrote to its log."""
        ...


@dataclass(frozen=True, slots=True)
class Training:
    """A data set, its shards by party, and the optimum that the training is to reach."""

    options: TrainingOptions
    dataset: Dataset
    shards: Mapping[str, Shard]
    loss: Loss
    optimum: CentralizedSolution

    @classmethod
    def prepare(cls, options: TrainingOptions) -> "Training":
        """Loads and splits the data set, and solves it in one place."""
        options.check()
        settings = options.parsed()
        dataset = load_dataset(options.dataset)
        shards = _dealt_out(dataset, options)
        names = [f"hospital-{number}" for number in range(1, len(shards) + 1)]
        loss = settings.loss_function
        optimum = solve_centralized(dataset.X, dataset.y, loss=loss, lambda_=options.lambda_)
        return cls(options, dataset, dict(zip(names, shards, strict=True)), loss, optimum)

    def config(self, name: str) -> RunConfig:
        """The run's configuration; without a gap of its own it stops where the promised distance is proven."""
        options = self.options
        # P(w) ≤ P* + gap, so this gap proves the promised distance.
        gap = options.gap or defaults.DEMO_RELATIVE_GAP * self.optimum.primal
        return RunConfig.from_mapping(
            {
                "name": name,
                "algorithm": options.algorithm,
                "settings": options.settings,
                "privacy": options.privacy,
                "benchmark": options.privacy is Privacy.PLAIN,
                "acknowledge_row_leak": options.privacy is Privacy.PAPER,
                "key": {"bits": options.key_bits, "kind": options.key_kind},
                "round": {"deadline_s": defaults.DEMO_DEADLINE_S},
                "stop": {"gap": gap, "rounds": options.rounds},
                "seed": options.seed,
            }
        )

    def follow(self, federation: RunningFederation, tell: Tell) -> Report:
        """Tells the events to the end of the run, and reports what came of it."""
        ended: Event | None = None
        history: list[Event] = []
        warnings: list[str] = []
        figures: Mapping[str, float] = {}
        for event in federation.events():
            tell(event)
            if event["event"] == "round":
                history.append({name: event[name] for name in ("round", "primal", "gap", "costs")})
                figures = event["figures"] or figures
            elif event["event"] == "warning":
                warnings.append(event["warning"])
            elif event["event"] == "ended":
                ended = event
        federation.wait()
        if ended is None or ended["outcome"] is None or ended["status"] not in ("completed", "diverged"):
            reason = ended["reason"] if ended else "the server ended before the run did"
            log = federation.log("server")[-LOG_CHARACTERS:]
            raise FederationFailed(f"the federation did not finish: {reason}\n{log}")
        report = self._report(ended, federation.model(self.dataset.features))
        return report | {"figures": figures, "history": history, "warnings": warnings}

    def _report(self, ended: Event, weights: NDArray[np.float64]) -> Report:
        options, dataset = self.options, self.dataset
        outcome = RunOutcome.from_mapping(ended["outcome"])
        reached_primal = primal(dataset.X, dataset.y, weights, loss=self.loss, lambda_=options.lambda_)
        return {
            "algorithm": options.algorithm,
            "certified": options.profile.certified,
            "primal": reached_primal,
            "dual": jsonrecord.jsonable(outcome.certificate.dual),
            "gap": jsonrecord.jsonable(outcome.certificate.gap),
            "centralized_primal": self.optimum.primal,
            "relative_error": (reached_primal - self.optimum.primal) / self.optimum.primal,
            "accuracy": float((np.sign(dataset.X @ weights) == dataset.y).mean()),
            "centralized_accuracy": self.optimum.accuracy,
            "rounds": outcome.rounds,
            "rtc_per_round": outcome.rtc_per_round,
            "clients": len(self.shards),
            "key_bits": options.key_bits,
            "privacy": options.privacy,
            "dataset": dataset.name,
            "status": ended["status"],
            "reason": ended["reason"],
            "seconds": outcome.seconds,
            "round_seconds": outcome.round_seconds,
            "bytes": jsonrecord.to_mapping(outcome.bytes),
            "clients_detail": {name: jsonrecord.to_mapping(held) for name, held in outcome.clients_detail.items()},
            "server_saw": what_the_server_saw(options, dataset),
        }


def _dealt_out(dataset: Dataset, options: TrainingOptions) -> list[Shard]:
    if options.split.alpha is None:
        return partition(dataset, grid=options.grid, columns=options.columns, seed=options.seed)
    parties, _ = options.grid
    return row_shards(dataset, dirichlet_rows(dataset.y, parties, alpha=options.split.alpha, seed=options.seed))


def reached(report: Mapping[str, Any], options: TrainingOptions) -> bool:
    """Whether the run got where it was asked to go, as its own certificate and the comparison say.

    An algorithm without a certificate promises no distance: to have completed is all.
    """
    if not options.profile.certified:
        return bool(report["status"] == "completed")
    if report["status"] != "completed" or report["gap"] is None:
        return False
    if options.gap is not None:
        return bool(report["gap"] <= options.gap)
    return bool(report["relative_error"] <= defaults.DEMO_RELATIVE_GAP)


def what_the_server_saw(options: TrainingOptions, dataset: Dataset) -> dict[str, str]:
    """For each kind of value, the form in which it reached the server."""
    profile = options.profile
    hidden = "ciphertext" if options.privacy.encrypts_samples else "in clear"
    shares_samples = options.partition != "horizontal"
    return {
        "rows, labels, sample ids": "never",
        "which rows parties share": "as pseudonyms",
        **({"whether labels of shared samples differ": "yes or no, once a party"} if shares_samples else {}),
        "feature names": f"as pseudonyms ({len(dataset.features)})",
        **dict.fromkeys(profile.encrypted, hidden),
        **dict.fromkeys(profile.sealed, "ciphertext" if options.privacy.encrypts_features else "in clear, each round"),
        **profile.visible,
    }
