"""Counts the rounds of each kind of local step, over data sets, regularisations and splits.

Counted are the rounds before the one that certifies a model within 1e-2 or 1e-3 of the centralized optimum, relative
to it. `paper` is run with each of several h, of which the best counts; `theory` and `corrective` have one fixed
configuration. All is done in this process and in clear; on demand one setting of each data set is repeated by real
processes with encryption.

A rule of participation says which parties a round has. For `paper` and `theory` it is a setting, and no round asks all
parties for a certificate. Corrective steps have no such setting: the other parties are not there.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fenchel_common import defaults
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.hyfdca.settings import HyfdcaSettings
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.partition import partition
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import loss_named
from fenchel_common.objectives import primal
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.bench.fastpartial import FastPartial
from fenchel_deploy.bench.faststeps import FastSteps
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.experiments.collections import load_collected
from fenchel_deploy.inprocess.halves import hyfdca_halves
from fenchel_deploy.local import LocalFederation
from fenchel_server.rounds.ledger import TOTAL
from fenchel_server.rounds.outcome import RunOutcome

COARSE, FINE = 1e-2, 1e-3
ROUNDING = 1e-12
"""What double precision can take from D in a round."""
AGREEMENT = 1e-6
"""The largest difference of P between an encrypted run and a run in clear, which sum samples in different orders."""
PAPER_H = (1, 4, 16, 64, 256)
THEORY, CORRECTIVE, PAPER = "theory", "corrective", "paper"
METHODS = (PAPER, THEORY, CORRECTIVE)
SETTING = ("dataset", "lambda", "grid", "columns", "loss", "participation", "seed")
"""The keys of a row that name its setting."""

Columns = Literal["contiguous", "shuffled"]
Tell = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The data sets, settings and methods to measure."""

    datasets: Sequence[str] = ("digits",)
    lambdas: Sequence[float] = (1e-2, 1e-3, 1e-4)
    grids: Sequence[tuple[int, int]] = ((1, 4), (4, 1), (4, 4), (2, 8), (6, 6))
    columns: Sequence[Columns] = ("contiguous", "shuffled")
    losses: Sequence[str] = ("hinge",)
    methods: Sequence[str] = METHODS
    participation: Sequence[str] = ("all",)
    seeds: Sequence[int] = (0,)
    maximum_rounds: int = 400
    rows: int = 12_000
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One problem and one way to split it."""

    dataset: Dataset
    lambda_: float
    grid: tuple[int, int]
    columns: Columns
    loss: str
    optimum: float
    participation: str
    seed: int

    @property
    def shards(self) -> list[Shard]:
        return partition(self.dataset, grid=self.grid, columns=self.columns, seed=self.seed)

    def by_paper(self, local: str, h: int | str) -> HyfdcaSettings:
        """The settings of a run in clear with steps of the paper: `local` is paper or theory."""
        steps = {"local": local, "h": h, "participation": self.participation, "certificate_every": 0}
        return HyfdcaSettings.parse({**self._in_clear, **steps})

    def corrective(self) -> CorrectiveSettings:
        """The settings of a run of all parties in clear with corrective steps."""
        return CorrectiveSettings.parse(self._in_clear)

    def partial(self) -> PartialSettings:
        """The settings of a run of some of the parties in clear with corrective steps."""
        return PartialSettings.parse({**self._in_clear, "participation": self.participation, "certificate_every": 0})

    @property
    def _in_clear(self) -> dict[str, object]:
        stop = {"gap": None, "rounds": defaults.MEASURED_ROUNDS}
        problem = {"loss": self.loss, "lambda": self.lambda_, "seed": self.seed}
        return {**problem, "privacy": Privacy.PLAIN, "stop": stop}

    def encrypted(self, rounds: int) -> RunConfig:
        """The configuration of an encrypted corrective run of exactly `rounds` rounds."""
        return RunConfig.from_mapping(
            {
                "name": "rounds",
                "settings": {"loss": self.loss, "lambda": self.lambda_, "local": CORRECTIVE},
                "key": {"bits": defaults.DEMO_KEY_BITS},
                "round": {"deadline_s": defaults.REPEATED_DEADLINE_S, "quorum": 1.0},
                "stop": {"gap": defaults.REPEATED_GAP, "rounds": rounds},
                "seed": self.seed,
            }
        )

    def relative_error(self, w: np.ndarray[Any, np.dtype[np.float64]]) -> float:
        X, y = self.dataset.X, self.dataset.y
        return primal(X, y, w, loss=loss_named(self.loss), lambda_=self.lambda_) / self.optimum - 1.0

    def describe(self) -> Row:
        return {
            "dataset": self.dataset.name,
            "lambda": self.lambda_,
            "grid": f"{self.grid[0]}x{self.grid[1]}",
            "columns": self.columns,
            "loss": self.loss,
            "participation": self.participation,
            "seed": self.seed,
        }


def run(sweep: Sweep, *, folder: Path | None, repeat_encrypted: bool, tell: Tell) -> dict[str, Any]:
    """The results, one row for each setting, method and h; what was left out; and a summary."""
    results: list[Row] = []
    skipped: list[str] = []
    encrypted: list[Row] = []
    for name in sweep.datasets:
        try:
            dataset = load_collected(name, folder, rows=sweep.rows, seed=sweep.seeds[0])
        except InvalidInput as error:
            tell(f"left out: {error}")
            skipped.append(str(error))
            continue
        first: tuple[Setting, Row] | None = None
        for setting, rows in _in_processes(_settings(dataset, sweep, tell), sweep):
            results += rows
            tell(_line(rows))
            own = [row for row in rows if row["method"] == CORRECTIVE and row["rounds_1e3"]]
            own = own if setting.participation == "all" else []
            first = first or ((setting, own[0]) if own else None)
        if repeat_encrypted and first is not None:
            encrypted.append(_repeated(*first))
            tell(f"encrypted: {encrypted[-1]}")
    summary = summarise(results, sweep.maximum_rounds)
    return {"results": results, "summary": summary, "encrypted": encrypted, "skipped": skipped}


def _settings(dataset: Dataset, sweep: Sweep, tell: Tell) -> Iterable[Setting]:
    for loss in sweep.losses:
        for lambda_ in sweep.lambdas:
            solved = solve_centralized(dataset.X, dataset.y, loss=loss_named(loss), lambda_=lambda_)
            for grid in sweep.grids:
                if grid[1] > dataset.X.shape[1] or grid[0] > len(dataset.y):
                    tell(f"left out: {dataset.name} does not fit a {grid[0]}x{grid[1]} grid")
                    continue
                # Without a cut through the columns there is nothing to shuffle.
                for columns, rule, seed in product(
                    sweep.columns if grid[1] > 1 else sweep.columns[:1], sweep.participation, sweep.seeds
                ):
                    yield Setting(dataset, lambda_, grid, columns, loss, solved.primal, rule, seed)


def _in_processes(settings: Iterable[Setting], sweep: Sweep) -> Iterator[tuple[Setting, list[Row]]]:
    """The settings with their rows, in their order."""
    if sweep.processes == 1:
        yield from ((setting, _measured(setting, sweep)) for setting in settings)
        return
    chosen = list(settings)
    with ProcessPoolExecutor(sweep.processes, mp_context=get_context("spawn")) as pool:
        yield from zip(chosen, pool.map(partial(_measured, sweep=sweep), chosen), strict=True)


def _measured(setting: Setting, sweep: Sweep) -> list[Row]:
    """The rows of a setting, each with the CPU seconds that it took."""
    rows, before = [], time.process_time()
    for row in _rows(setting, sweep):
        rows.append(row | {"cpu_seconds": round(time.process_time() - before, 3)})
        before = time.process_time()
    return rows


def _rows(setting: Setting, sweep: Sweep) -> Iterator[Row]:
    shards = setting.shards
    for method in sweep.methods:
        if method == CORRECTIVE:
            yield _corrective(setting, shards, sweep.maximum_rounds)
            continue
        for h in PAPER_H if method == PAPER else ("auto",):
            steps = FastSteps(setting.dataset, shards, setting.by_paper(method, h))
            errors = []
            for _ in range(sweep.maximum_rounds):
                steps.round()
                errors.append(steps.primal() / setting.optimum - 1.0)
                if errors[-1] <= FINE:
                    break
            yield _row(setting, method, h, errors, monotone=None)


def _corrective(setting: Setting, shards: Sequence[Shard], maximum_rounds: int) -> Row:
    if setting.participation != "all":
        return _partial(setting, shards, maximum_rounds)
    federation = hyfdca_halves(shards, setting.corrective())
    errors: list[float] = []
    # The model of a round is the one that it certifies, made from the rounds before it; the first one's is zero.
    duals = [federation.round().metrics.dual]
    for _ in range(maximum_rounds):
        duals.append(federation.round().metrics.dual)
        errors.append(setting.relative_error(federation.weights(setting.dataset.features)))
        if errors[-1] <= FINE:
            break
    known = [dual for dual in duals if dual is not None]
    return _row(setting, CORRECTIVE, None, errors, monotone=len(known) == len(duals) and all(np.diff(known) >= 0.0))


def _partial(setting: Setting, shards: Sequence[Shard], maximum_rounds: int) -> Row:
    """Rounds of some of the parties: what counts is the model with which the run would end after them."""
    steps = FastPartial(setting.dataset, shards, setting.partial())
    errors: list[float] = []
    bounds = [steps.bound()]
    for _ in range(maximum_rounds):
        steps.round()
        bounds.append(steps.bound())
        errors.append(steps.ending().primal / setting.optimum - 1.0)
        if errors[-1] <= FINE:
            break
    return _row(setting, CORRECTIVE, None, errors, monotone=bool((np.diff(bounds) >= -ROUNDING).all()))


def _row(setting: Setting, method: str, h: int | str | None, errors: Sequence[float], *, monotone: bool | None) -> Row:
    at_zero = float(loss_named(setting.loss).value(np.zeros(1), np.ones(1))[0]) / setting.optimum - 1.0
    return setting.describe() | {
        "method": method,
        "h": h,
        "rounds_1e2": _first(errors, COARSE),
        "rounds_1e3": _first(errors, FINE),
        "last_error": errors[-1],
        "monotone": monotone,
        "diverged": not errors[-1] <= at_zero,
    }


def _first(errors: Sequence[float], goal: float) -> int | None:
    return next((number for number, error in enumerate(errors, start=1) if error <= goal), None)


def summarise(results: Sequence[Row], maximum_rounds: int) -> Row:
    """Ratios of the rounds of `corrective` to those of `paper` with its best h.

    If no h reached the goal, `paper` counts with one round more than allowed: the ratio is then an upper bound, and
    `paper_unreached` counts these settings.
    """
    by_setting: dict[tuple[Any, ...], dict[str, list[Row]]] = {}
    for row in results:
        setting = tuple(row[name] for name in SETTING)
        by_setting.setdefault(setting, {}).setdefault(row["method"], []).append(row)
    ratios: list[float] = []
    by_rule: dict[str, list[float]] = {}
    unreached = worse = 0
    for rows in by_setting.values():
        if PAPER not in rows or CORRECTIVE not in rows:
            continue
        best = min((row["rounds_1e3"] for row in rows[PAPER] if row["rounds_1e3"]), default=None)
        own = rows[CORRECTIVE][0]["rounds_1e3"]
        unreached += best is None
        ratios.append((own or maximum_rounds + 1) / (best or maximum_rounds + 1))
        worse += ratios[-1] > 1.0
        by_rule.setdefault(rows[CORRECTIVE][0]["participation"], []).append(ratios[-1])
    corrective = [row for row in results if row["method"] == CORRECTIVE]
    return {
        "settings": len(by_setting),
        "compared": len(ratios),
        **_ratio_figures(ratios),
        "by_participation": {rule: _ratio_figures(found) for rule, found in by_rule.items()},
        "corrective_worse": worse,
        "paper_unreached": unreached,
        "corrective_unreached": sum(row["rounds_1e3"] is None for row in corrective),
        "corrective_monotone": all(row["monotone"] for row in corrective),
        "corrective_diverged": sum(row["diverged"] for row in corrective),
        "paper_diverged": sum(row["diverged"] for row in results if row["method"] == PAPER),
    }


def _ratio_figures(ratios: Sequence[float]) -> Row:
    """The median of the ratios, the least number that nine of ten do not exceed, and the largest."""
    ordered = sorted(ratios)
    return {
        "median_ratio": statistics.median(ordered) if ordered else None,
        "ninth_decile_ratio": ordered[math.ceil(0.9 * len(ordered)) - 1] if ordered else None,
        "worst_ratio": ordered[-1] if ordered else None,
    }


def _line(rows: Sequence[Row]) -> str:
    head = " ".join(
        str(rows[0][name]) for name in ("dataset", "loss", "lambda", "grid", "columns", "participation", "seed")
    )
    parts = [
        f"{row['method']}{'' if row['h'] in (None, 'auto') else row['h']} {row['rounds_1e2']}/{row['rounds_1e3']}"
        for row in rows
    ]
    return f"{head}: {', '.join(parts)}"


def _repeated(setting: Setting, row: Mapping[str, Any]) -> Row:
    """The setting's corrective run by real processes with encryption, for as many rounds as it took in clear."""
    rounds = row["rounds_1e3"]
    config = setting.encrypted(rounds)
    shards = {f"party-{number:03d}": shard for number, shard in enumerate(setting.shards)}
    with (
        tempfile.TemporaryDirectory(prefix="fenchel-rounds-") as scratch,
        LocalFederation(Path(scratch), shards, config) as federation,
    ):
        ended = [event for event in federation.events() if event["event"] == "ended"]
        federation.wait()
        error = setting.relative_error(federation.model(setting.dataset.features))
    outcome = RunOutcome.from_mapping(ended[0]["outcome"])
    return setting.describe() | {
        "rounds": rounds,
        "relative_error": error,
        "relative_error_in_clear": row["last_error"],
        "agrees": abs(error - row["last_error"]) <= AGREEMENT,
        "seconds": outcome.seconds[TOTAL],
    }
