"""A demonstration: made-up hospitals train on a data set that is split over them, beside the centralized optimum.

`fenchel demo` (processes on this machine) and `fenchel up` (containers) both use this module for the options, the
problem, the run's configuration, the events and the report.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fenchel_common import defaults, jsonrecord
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.fitting import check_label_settings, check_loss, check_partition
from fenchel_common.algorithms.settings import AlgorithmSettings, Partition, Profile
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.heterogeneous import Split, row_shards
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed, InvalidConfig
from fenchel_common.intercept import INTERCEPT
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.losses import Fit, Loss
from fenchel_common.privacy import CipherWord, Privacy
from fenchel_common.runconfig import RunConfig, SamplesWord
from fenchel_deploy.constrainedreference import FEDSGM, ConstrainedProblem
from fenchel_deploy.reference import Optimum, Problems
from fenchel_deploy.running import Event, RunningFederation, Tell
from fenchel_deploy.tablefolder import label_settings, pooled, read_tables, run_preparation, scale_of
from fenchel_server.rounds.outcome import RunOutcome

LOG_CHARACTERS = 2000

WITH_REPORT = ("completed", "exhausted", "diverged")
"""The statuses of runs that end with a model, or with figures that say why there is none of use."""
Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DemonstrationOptions:
    """The choices of a demonstration. `local`, `h` and `classes` are HyFDCA's; `parameters` are other settings.

    Without `loss` or `lambda_`, the algorithm's own default holds.

    With `tables`, the parties are these, each with the table in its folder; `features` are settings of the run's
    `[features]`, and `samples` says which samples are used. Otherwise `dataset` is split over parties.
    """

    algorithm: str = defaults.ALGORITHM
    dataset: str = "breast_cancer"
    tables: Mapping[str, Path] = field(default_factory=dict)
    features: Mapping[str, object] = field(default_factory=dict)
    samples: SamplesWord = defaults.SAMPLES
    grid: tuple[int, int] = (2, 2)
    columns: Literal["contiguous", "shuffled"] = "contiguous"
    split: Split = field(default_factory=Split)
    loss: str | None = None
    lambda_: float | None = None
    local: str = defaults.LOCAL
    h: str | int | float | None = None
    classes: tuple[str, ...] = ()
    participation: str = defaults.PARTICIPATION
    privacy: Privacy = defaults.PRIVACY
    cipher: CipherWord = defaults.CIPHER
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
        """How the grid splits the table; tables may split it in any way."""
        if self.tables:
            return "hybrid"
        row_groups, column_groups = self.grid
        return "horizontal" if column_groups == 1 else "vertical" if row_groups == 1 else "hybrid"

    def check(self) -> None:
        """Raises `InvalidConfig` if the algorithm is unknown or does not fit the grid, the split or the loss."""
        if self.algorithm not in SETTINGS:
            raise InvalidConfig(f"algorithm: {self.algorithm!r} is not one of: {', '.join(SETTINGS)}")
        if not self.tables:
            check_partition(self.algorithm, self.partition)
        elif self.algorithm == FEDSGM:
            raise InvalidConfig(
                f"algorithm: {FEDSGM} has no demonstration with tables; use a data set, or start a server"
            )
        check_loss(self.algorithm, self.loss)
        check_label_settings(self.algorithm, self.parameters)
        if self.split.whole_rows and self.grid[1] > 1:
            raise InvalidConfig("split: this one deals out whole rows; use a grid of one column group, such as 4x1")

    @property
    def settings(self) -> dict[str, object]:
        """The algorithm's settings, as in the `[settings]` of a run's file."""
        known = SETTINGS[self.algorithm].parameters()
        given = {"local": self.local, "h": self.h, "classes": self.classes or None}
        own = {name: value for name, value in given.items() if name in known}
        common = {"loss": self.loss, "lambda": self.lambda_, "participation": self.participation}
        chosen = {name: value for name, value in {**common, **own}.items() if value is not None}
        return {**chosen, **self.parameters}

    @property
    def preparation(self) -> dict[str, object]:
        """What a run's file says of the samples and features of tables; nothing for a data set."""
        return run_preparation(self.features, self.samples) if self.tables else {}

    def parsed(self) -> AlgorithmSettings:
        """The algorithm's settings, checked."""
        return SETTINGS[self.algorithm].parse(self.settings)


@dataclass(frozen=True)
class Demonstration:
    """A data set, its shards by party, and the centralized optimum that the federation is to reach."""

    options: DemonstrationOptions
    dataset: Dataset
    shards: Mapping[str, Shard]

    @classmethod
    def prepare(cls, options: DemonstrationOptions) -> "Demonstration":
        """Loads and splits the data set that the options name, or pools the tables."""
        options.check()
        if not options.tables:
            return cls.of(load_dataset(options.dataset, options.classes), options)
        shards = read_tables(options.tables)
        known = SETTINGS[options.algorithm].parameters()
        needed = {name: value for name, value in label_settings(shards, options.parsed().loss).items() if name in known}
        chosen = replace(
            options,
            features={"scale": scale_of(shards), **options.features},
            parameters={**needed, **options.parameters},
        )
        features = RunConfig.from_mapping({"name": "tables", **chosen.preparation}).features
        assert features is not None, "tables are always prepared"
        return cls(chosen, pooled(options.dataset, shards, features, samples=options.samples), shards)

    @classmethod
    def of(cls, dataset: Dataset, options: DemonstrationOptions) -> "Demonstration":
        """Splits a data set."""
        options.check()
        shards = {f"hospital-{number}": shard for number, shard in enumerate(_dealt_out(dataset, options), 1)}
        return cls(options, dataset, shards)

    @cached_property
    def loss(self) -> Loss:
        return self.options.parsed().loss_function

    @cached_property
    def label_scaling(self) -> LabelScaling:
        return LabelScaling.of_labels(self.options.parsed().label_rules, self.dataset.y)

    @cached_property
    def labels(self) -> NDArray[np.float64]:
        """The labels of the data set as the loss takes them; in a run of several classes their codes."""
        rules = self.options.parsed().label_rules
        return self.label_scaling.applied(self.dataset.y, self.dataset.weights, rules)

    @cached_property
    def problems(self) -> Problems:
        settings = self.options.parsed()
        return Problems.of(
            self.dataset.X,
            self.labels,
            loss=self.loss,
            lambda_=settings.lambda_,
            classes=settings.class_names,
            intercept=INTERCEPT in self.dataset.features,
        )

    @cached_property
    def constrained(self) -> ConstrainedProblem | None:
        """The problem of an algorithm that trains under a constraint; None for others."""
        return ConstrainedProblem.of(self.options.parsed(), self.shards.values())

    @cached_property
    def optimum(self) -> Optimum | None:
        """Found when it is first asked for: on wide data that takes longer than the federation.

        None under a constraint for which no optimum is computed.
        """
        return (self.constrained or self.problems).solved()

    def config(self, name: str) -> RunConfig:
        """The run's configuration. If the options name no gap, the run stops at 0.1 % of the optimum."""
        options = self.options
        # P(w) ≤ P* + gap, so this gap proves the promised distance.
        gap = options.gap or (defaults.DEMO_RELATIVE_GAP * self.optimum.least if self.optimum else defaults.GAP)
        return RunConfig.from_mapping(
            {
                "name": name,
                "algorithm": options.algorithm,
                "settings": options.settings,
                "privacy": options.privacy,
                "benchmark": options.privacy is Privacy.PLAIN,
                "acknowledge_row_leak": options.privacy is Privacy.PAPER,
                "cipher": options.cipher,
                "key": {"bits": options.key_bits, "kind": options.key_kind},
                "round": {"deadline_s": defaults.DEMO_DEADLINE_S},
                "stop": {"gap": gap, "rounds": options.rounds},
                "seed": options.seed,
                **options.preparation,
            }
        )

    def compare(self, federation: RunningFederation, tell: Tell) -> Report:
        """Follows the run to its end; the report compares its model with the centralized optimum if that is known."""
        report, optimum = self.follow(federation, tell), self.optimum
        if optimum is None:
            return report
        best = self._fit(optimum.w)
        return report | {
            "centralized_primal": optimum.primal,
            "relative_error": optimum.relative_error(report["primal"]),
            "centralized_accuracy": best.accuracy,
            "centralized_rmse": best.rmse,
            "centralized_r2": best.r2,
            "centralized_scores": (scores := self.problems.scores(optimum.w)) and jsonrecord.to_mapping(scores),
            "centralized_constraint": self.constrained and self.constrained.constraint(optimum.w),
        }

    def follow(self, federation: RunningFederation, tell: Tell) -> Report:
        """Passes the events to `tell` until the run ends, and returns a report on the run alone.

        Raises `FederationFailed` if the run ended without a model.
        """
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
        codes = federation.wait()
        if ended is None or ended["outcome"] is None or ended["status"] not in WITH_REPORT:
            reason = ended["reason"] if ended else "the server ended before the run did"
            log = federation.log("server")[-LOG_CHARACTERS:]
            last = {name: federation.log(name).splitlines()[-1:] for name in self.shards if codes.get(name)}
            said = "".join(f"\n{name}: {line}" for name, lines in last.items() for line in lines)
            raise FederationFailed(f"the federation did not finish: {reason}\n{log}{said}")
        report = self._report(ended, federation.model(self.dataset.features))
        return report | {"figures": figures, "history": history, "warnings": warnings}

    def _report(self, ended: Event, weights: NDArray[np.float64]) -> Report:
        options, dataset = self.options, self.dataset
        outcome, certificate = RunOutcome.from_mapping(ended["outcome"]), ended["outcome"]["certificate"]
        constrained, fit = self.constrained, self._fit(weights)
        return {
            "algorithm": options.algorithm,
            "certified": options.profile.certified,
            "lambda": options.parsed().lambda_,
            "primal": (constrained or self.problems).objective(weights),
            "constraint": constrained and constrained.constraint(weights),
            "dual": certificate["dual"],
            "gap": certificate["gap"],
            "accuracy": fit.accuracy,
            "rmse": fit.rmse,
            "r2": fit.r2,
            "scores": certificate["scores"],
            "rounds": outcome.rounds,
            "rtc_per_round": outcome.rtc_per_round,
            "clients": len(self.shards),
            "key_bits": options.key_bits,
            "privacy": options.privacy,
            "cipher": options.cipher if options.privacy.encrypts_samples else None,
            "dataset": dataset.name,
            "status": ended["status"],
            "reason": ended["reason"],
            "seconds": outcome.seconds,
            "round_seconds": outcome.round_seconds,
            "cpu_seconds": outcome.cpu_seconds,
            "bytes": jsonrecord.to_mapping(outcome.bytes),
            "clients_detail": {name: jsonrecord.to_mapping(spent) for name, spent in outcome.clients_detail.items()},
            "server_saw": what_the_server_saw(options, dataset),
        }

    def _fit(self, weights: NDArray[np.float64]) -> Fit:
        """How well a model predicts; the error of numbers is in the unit in which they were given."""
        if weights.ndim == 2:
            return self.problems.fit_of_classes(weights)
        count = len(self.labels)
        fit = self.loss.fit(self.loss.fit_sum(self.dataset.X @ weights, self.labels) / count)
        if fit.rmse is None:
            return fit
        rmse, deviation = fit.rmse * self.label_scaling.scale, float(self.dataset.y.std())
        return Fit(rmse=rmse, r2=1.0 - (rmse / deviation) ** 2 if deviation > 0.0 else None)


def _dealt_out(dataset: Dataset, options: DemonstrationOptions) -> list[Shard]:
    if options.split.whole_rows:
        return row_shards(dataset, options.split.rows(dataset.y, options.grid[0], seed=options.seed))
    return partition(dataset, grid=options.grid, columns=options.columns, seed=options.seed)


def reached(report: Mapping[str, Any], options: DemonstrationOptions) -> bool:
    """Whether the run reached its goal: the gap of the options, or else 0.1 % of the centralized optimum.

    An algorithm without a certificate promises no distance; its goal is to complete.
    """
    if not options.profile.certified:
        return bool(report["status"] == "completed")
    if report["status"] != "completed" or report["gap"] is None:
        return False
    if options.gap is not None:
        return bool(report["gap"] <= options.gap)
    return bool(report["relative_error"] <= defaults.DEMO_RELATIVE_GAP)


def what_the_server_saw(options: DemonstrationOptions, dataset: Dataset) -> dict[str, str]:
    """For each kind of value, the form in which it reached the server."""
    profile = options.profile
    hidden = "ciphertext" if options.privacy.encrypts_samples else "in clear"
    samples_in_common = options.partition != "horizontal"
    return {
        "rows, labels, sample ids": "never",
        "which rows parties share": "as pseudonyms",
        **({"whether labels of shared samples differ": "yes or no, once a party"} if samples_in_common else {}),
        "feature names": f"as pseudonyms ({len(set(dataset.features) - {INTERCEPT})})",
        **dict.fromkeys(profile.encrypted, hidden),
        **dict.fromkeys(profile.sealed, "ciphertext" if options.privacy.encrypts_features else "in clear, each round"),
        **profile.visible,
    }
