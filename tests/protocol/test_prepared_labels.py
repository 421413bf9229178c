"""Labels prepared by encrypted sums: balanced classes, standardised numbers, and weights that the tables give."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.data.shard import Shard
from fenchel_common.errors import DataUnfit, InvalidConfig
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.metrics import RoundMetrics
from fenchel_common.model import Standardised, find_model, read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE, LAYOUT, PREPARE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_server.store import Ending, RunStatus
from support.federation import InProcessFederation, handler_of
from support.records import RUN
from support.tables import small_dataset

Array = NDArray[np.float64]

FIRST = ClientId("p1")
LAMBDA = 0.1
DATA = small_dataset(90, 6)
X = np.asarray(DATA.X, dtype=np.float64)
RARE = np.where(np.arange(90) % 6 == 0, 1.0, -1.0)
"""Labels of which 15 of 90 are positive."""
PRICES = 250_000.0 + 40_000.0 * (X @ np.linspace(-1.0, 2.0, 6)) + 5_000.0 * np.random.default_rng(4).standard_normal(90)
WEIGHTS = np.random.default_rng(5).uniform(0.5, 3.0, size=90)
BALANCED = {"loss": "logistic", "class_weight": "balanced"}
STANDARD = {"loss": "squared", "target_scale": "standard"}


def shards(y: Array, weights: Array | None = None) -> dict[str, Shard]:
    """Two sites. At the first, two parties hold the labels of the same samples; at the second, one of two does."""

    def held(rows: range, columns: list[int], *, labels: bool) -> Shard:
        own = list(rows)
        given = weights[own] if labels and weights is not None else None
        names = tuple(DATA.features[column] for column in columns)
        ids = tuple(f"s{row}" for row in own)
        return Shard(ids, names, X[np.ix_(own, columns)], y[own] if labels else None, weights=given)

    return {
        "p1": held(range(50), [0, 1, 2], labels=True),
        "p2": held(range(50), [3, 4, 5], labels=True),
        "p3": held(range(50, 90), [0, 1, 2], labels=True),
        "p4": held(range(50, 90), [3, 4, 5], labels=False),
    }


def config(settings: Mapping[str, object], **changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA, **settings},
        "stop": {"gap": 1e-4},
        "seed": 1,
    }
    return RunConfig.from_mapping(values | changes)


@dataclass(frozen=True)
class Trained:
    run: InProcessFederation
    ending: Ending
    directory: Path

    @property
    def w(self) -> Array:
        return whole_model(map(read_model, self.directory.glob("*/*.model")), DATA.features)

    def target(self, party: str) -> Standardised | None:
        """How a party's model says that numbers to predict were standardised."""
        return find_model(self.directory / party).record.target


def trained(directory: Path, held: Mapping[str, Shard], terms: RunConfig) -> Trained:
    run = InProcessFederation(directory, held, terms, release_model_to_server=False)
    return Trained(run, run.drive(), directory)


@cache
def optimum(chosen: tuple[tuple[str, str], ...], *, weighted: bool) -> tuple[Array, float]:
    """The labels as the loss takes them, and the least P of the pooled table."""
    settings = CorrectiveSettings.parse({**dict(chosen), "sample_weights": weighted})
    rules, y = settings.label_rules, PRICES if "target_scale" in dict(chosen) else RARE
    labels = LabelScaling.of_labels(rules, y).applied(y, WEIGHTS if weighted else None, rules)
    return labels, solve_centralized(X, labels, loss=settings.loss_function, lambda_=LAMBDA).primal


def check_optimal(done: Trained, settings: Mapping[str, str], *, weighted: bool = False) -> None:
    assert done.ending.status is RunStatus.COMPLETED
    labels, best = optimum(tuple(settings.items()), weighted=weighted)
    loss = CorrectiveSettings.parse({**settings, "sample_weights": weighted}).loss_function
    reached = primal(X, labels, done.w, loss=loss, lambda_=LAMBDA)
    assert best - 1e-9 <= reached <= best + 2e-4


@pytest.mark.parametrize("local", ["corrective", "paper"])
def test_balanced_classes_and_sample_weights_give_the_model_of_the_pooled_table(tmp_path: Path, local: str) -> None:
    """Each class counts N/(2·N_class) a sample, over the whole federation; shared samples count once."""
    terms = config({**BALANCED, "local": local, "sample_weights": True})
    done = trained(tmp_path, shards(RARE, WEIGHTS), terms)
    check_optimal(done, BALANCED, weighted=True)
    phases = [phase.phase for phase in done.run.transport.phases if phase.round == 0]
    assert phases[-3:] == [LAYOUT, PREPARE, "labels"]


@pytest.mark.parametrize("local", ["corrective", "paper"])
def test_numbers_to_predict_are_standardised_and_predictions_are_in_their_unit(tmp_path: Path, local: str) -> None:
    done = trained(tmp_path, shards(PRICES), config({**STANDARD, "local": local}))
    check_optimal(done, STANDARD)
    target = done.target("p3")
    assert target is not None
    assert (target.shift, target.scale) == pytest.approx((PRICES.mean(), PRICES.std()), rel=1e-12)
    assert done.target("p4") is None, "who has no labels learns nothing of them"
    predicted = target.shift + target.scale * (X @ done.w)
    last = RoundMetrics.from_json(done.run.store.rounds(RUN)[-1].metrics)
    deviations = float(np.sqrt(((predicted - PRICES) ** 2).mean())) / PRICES.std()
    assert last.accuracy is None
    assert last.figures == pytest.approx({"rmse": deviations, "r2": 1.0 - deviations**2}, rel=1e-6)


@pytest.mark.parametrize("settings", [BALANCED, STANDARD], ids=["balanced", "standardised"])
def test_every_cipher_and_level_gives_the_same_model_to_the_last_bit(tmp_path: Path, settings: dict[str, str]) -> None:
    held = shards(PRICES if settings is STANDARD else RARE)
    levels: dict[str, dict[str, object]] = {
        "plain": {},
        "paillier": {"privacy": "sealed", "benchmark": False},
        "masks": {"privacy": "sealed", "benchmark": False, "cipher": "masks"},
        "paper": {"privacy": "paper", "benchmark": False, "acknowledge_row_leak": True},
    }
    models = []
    for name, changes in levels.items():
        done = trained(tmp_path / name, held, config(settings, stop={"gap": 1e-3}, **changes))
        assert done.ending.status is RunStatus.COMPLETED
        models.append((done.w.tobytes(), done.target("p1")))
    assert all(model == models[0] for model in models)


@pytest.mark.parametrize("settings", [BALANCED, STANDARD], ids=["balanced", "standardised"])
def test_a_party_that_restarts_in_mid_run_prepares_its_labels_as_before(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    held = shards(PRICES if settings is STANDARD else RARE)
    run = InProcessFederation(tmp_path, held, config(settings), release_model_to_server=False)
    restarted: list[int] = []

    def restart(phase: object) -> None:
        if getattr(phase, "round", 0) == 2 and not restarted:
            restarted.append(2)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, held["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    done = Trained(run, run.drive(), tmp_path)
    assert restarted
    check_optimal(done, settings)


def test_a_party_that_restarts_between_layout_and_preparation_makes_the_set_up_begin_anew(tmp_path: Path) -> None:
    held = shards(RARE)
    run = InProcessFederation(tmp_path, held, config(BALANCED), release_model_to_server=False)
    restarted: list[str] = []

    def restart(phase: object) -> None:
        if getattr(phase, "phase", "") == LAYOUT and not restarted:
            restarted.append(LAYOUT)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, held["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    done = Trained(run, run.drive(), tmp_path)
    phases = [phase.phase for phase in run.transport.phases if phase.round == 0]
    assert phases.count(LAYOUT) == 2
    check_optimal(done, BALANCED)


def test_holders_of_a_sample_with_different_weights_are_found_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    held = shards(RARE, WEIGHTS)
    second = held["p2"].weights
    assert second is not None
    other = second.copy()
    other[:2] = 2.5
    done = trained(
        tmp_path, {**held, "p2": replace(held["p2"], weights=other)}, config({**BALANCED, "sample_weights": True})
    )
    assert done.ending.status is RunStatus.FAILED
    assert "p1" in done.ending.reason
    assert "2 of the 50 labels" in caplog.text
    assert "or have another weight" in caplog.text


def test_a_class_too_rare_for_the_largest_weight_is_told_to_its_party_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    done = trained(tmp_path, shards(RARE), config({**BALANCED, "largest_weight": 2.0}))
    assert done.ending.status is RunStatus.FAILED
    assert "its own log says why" in done.ending.reason
    assert "largest_weight" not in done.ending.reason


def test_tables_without_the_weights_of_the_run_and_with_unused_ones_are_refused_before_any_key(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Shard], Mapping[str, object], str]] = [
        (shards(RARE), {**BALANCED, "sample_weights": True}, "this table has none"),
        (shards(RARE, WEIGHTS), BALANCED, "which this run does not use"),
        (shards(RARE, WEIGHTS * 100.0), {**BALANCED, "sample_weights": True}, "raise largest_weight"),
    ]
    for number, (held, settings, reason) in enumerate(cases):
        done = trained(tmp_path / str(number), held, config(settings))
        assert "p1 (refused: its data do not fit this run)" in done.ending.reason
        assert {phase.phase for phase in done.run.transport.phases} == {"introduce"}
        with pytest.raises(DataUnfit, match=reason):
            done.run.parties[FIRST].handle(Task(RUN, RoundId(0), INTRODUCE, terms_to_bytes(config(settings))))


def test_algorithms_without_weights_say_so_and_noise_needs_fixed_ones() -> None:
    with pytest.raises(InvalidConfig, match=r"settings\.class_weight: fedavg uses labels as they are .*choose hyfdca"):
        config({"class_weight": "balanced"}, algorithm="fedavg", privacy="sealed", benchmark=False)
    sealed: dict[str, object] = {"privacy": "sealed", "benchmark": False, "round": {"quorum": 1.0}}
    release = {"epsilon": 1.0, "delta": 1e-5, "row_bound": 1.0}
    with pytest.raises(InvalidConfig, match="does not cover class weights or a scale that are learnt"):
        config({"class_weight": "balanced"}, release=release, **sealed)
    config({"class_weight": {"positive": 3.0}}, release=release, **sealed)
