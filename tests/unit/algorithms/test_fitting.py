"""Algorithms that do not fit what is asked of them: the error names those which do."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from fenchel_client.algorithms import ALGORITHMS as CLIENT_HALVES
from fenchel_common import algorithms
from fenchel_common.algorithms import SETTINGS, fitting
from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.algorithms.fitting import check_loss, check_partition, check_privacy
from fenchel_common.algorithms.settings import AlgorithmEntry, Profile
from fenchel_common.errors import InvalidConfig
from fenchel_common.identity import Kit
from fenchel_common.ids import ClientId
from fenchel_common.layout import Block, FederationLayout
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from fenchel_server.algorithms import ALGORITHMS as SERVER_HALVES
from fenchel_server.cohorts import OverlapRule, lay_out
from fenchel_server.holdings import Holding
from fenchel_server.setup import FederationSetup
from support.kits import make_federation

A, B = ClientId("a"), ClientId("b")


class RowsOnly(AveragingSettings):
    """Takes whole rows, a loss that no other algorithm has, and no run in clear."""

    profile: ClassVar[Profile] = Profile(
        "rows only", ("horizontal",), ("cubic",), (), privacy=(Privacy.SEALED, Privacy.PAPER)
    )


@pytest.fixture
def rows_only(monkeypatch: pytest.MonkeyPatch) -> str:
    table = {**SETTINGS, "rows_only": AlgorithmEntry(RowsOnly)}
    for module in (algorithms, fitting):
        monkeypatch.setattr(module, "SETTINGS", table)
    monkeypatch.setattr("fenchel_deploy.demonstration.SETTINGS", table)
    monkeypatch.setattr("fenchel_common.runconfig.SETTINGS", table)
    return "rows_only"


def layout(features: dict[ClientId, list[int]], blocks: list[tuple[ClientId, ...]]) -> FederationLayout:
    return FederationLayout(
        clients=(A, B),
        sample_count=len(blocks),
        slots=1,
        feature_slots=1,
        blocks=tuple(Block(number, 1, holders) for number, holders in enumerate(blocks)),
        features=("x", "y"),
        client_features={client: np.array(own) for client, own in features.items()},
        label_holders=frozenset({A, B}),
    )


@pytest.mark.parametrize(
    ("features", "blocks", "kind"),
    [
        ({A: [0, 1], B: [0, 1]}, [(A,), (B,)], "horizontal"),
        ({A: [0], B: [1]}, [(A, B), (A, B)], "vertical"),
        ({A: [0], B: [1]}, [(A, B), (A,)], "hybrid"),
        ({A: [0, 1], B: [1]}, [(A,), (B,)], "hybrid"),
    ],
)
def test_the_kind_of_the_shards_is_read_off_the_layout(
    features: dict[ClientId, list[int]], blocks: list[tuple[ClientId, ...]], kind: str
) -> None:
    assert layout(features, blocks).partition == kind


def test_the_three_tables_list_the_same_algorithms() -> None:
    listed = {
        (settings.family.name, algorithm)
        for algorithm, entry in SETTINGS.items()
        for settings in (entry.default, *entry.by_local.values(), *entry.of_some.values())
    }
    for halves in (CLIENT_HALVES, SERVER_HALVES):
        assert listed == {(family, algorithm) for family, table in halves.items() for algorithm in table}


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_every_algorithm_says_what_it_takes_and_what_its_parameters_mean(algorithm: str) -> None:
    settings = SETTINGS[algorithm]
    assert settings.profile.summary
    assert settings.profile.partitions
    assert settings.profile.losses
    assert settings.profile.encrypted
    assert settings.parameters()
    assert all(meaning for _, meaning in settings.parameters().values())
    assert not {"seed", "stop"} & settings.parameters().keys()


def test_shards_that_do_not_fit_are_refused_with_the_algorithms_that_take_them(rows_only: str) -> None:
    check_partition(rows_only, "horizontal")
    with pytest.raises(InvalidConfig, match=r"rows_only takes horizontal shards, and these are vertical; .*hyfdca"):
        check_partition(rows_only, "vertical")


def test_a_loss_that_does_not_fit_is_refused_with_the_algorithms_that_take_it(rows_only: str) -> None:
    check_loss("fedavg", "hinge")
    check_loss("fedavg", None)
    with pytest.raises(InvalidConfig, match="for the loss cubic choose one of the algorithms rows_only"):
        check_loss("fedavg", "cubic")
    values = {"name": "n", "algorithm": "hyfem", "settings": {"loss": "cubic"}}
    with pytest.raises(InvalidConfig, match=r"settings.loss: hyfem takes hinge, .*rows_only"):
        RunConfig.from_mapping(values)


def test_a_loss_that_nobody_takes_is_refused_with_those_that_the_algorithm_takes() -> None:
    with pytest.raises(InvalidConfig, match=r"settings.loss: choose one of hinge, smoothed_hinge, logistic"):
        RunConfig.from_mapping({"name": "n", "algorithm": "fedavg", "settings": {"loss": "quartic"}})


def test_a_privacy_level_that_an_algorithm_lacks_is_refused(rows_only: str) -> None:
    check_privacy(rows_only, Privacy.SEALED)
    with pytest.raises(InvalidConfig, match=r"privacy: rows_only has sealed and paper, not plain, which .*fedavg"):
        check_privacy(rows_only, Privacy.PLAIN)
    values = {"name": "n", "algorithm": rows_only, "privacy": "plain", "benchmark": True}
    with pytest.raises(InvalidConfig, match="privacy: rows_only has sealed and paper, not plain"):
        RunConfig.from_mapping(values)


@pytest.mark.parametrize("level", [Privacy.SEALED, Privacy.PAPER])
@pytest.mark.parametrize("algorithm", [name for name in SETTINGS if name != "scoring"])
def test_every_algorithm_runs_at_the_levels_that_hide_something(algorithm: str, level: Privacy) -> None:
    values = {"name": "n", "algorithm": algorithm, "privacy": level, "acknowledge_row_leak": True}
    assert RunConfig.from_mapping(values).privacy == level


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"local_steps": 0}, "settings.local_steps: use a whole number"),
        ({"local_steps": True}, "settings.local_steps: use a whole number"),
        ({"local_steps": -0.5}, "settings.local_steps: use a whole number"),
        ({"a": 0.0}, "settings.a: "),
        ({"b": -1.0}, "settings.b: "),
        ({"batch": 0}, "settings.batch: "),
        ({"mu": 1.0}, "settings.mu: unknown key; the known ones are loss, lambda, participation, measure_every"),
        ({"weighting": "none"}, "settings.weighting: "),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        RunConfig.from_mapping({"name": "n", "algorithm": "fedavg", "settings": settings})


def test_the_set_up_of_a_run_refuses_shards_that_do_not_fit(rows_only: str, tmp_path: Path) -> None:
    roster = Kit.load(make_federation(tmp_path, ["a", "b"])["a"]).roster
    config = RunConfig.from_mapping({"name": "n", "algorithm": rows_only, "settings": {"loss": "cubic"}})
    holdings = [Holding(A, (b"1", b"2"), ("x",), True), Holding(B, (b"2", b"1"), ("y",), True)]
    aligned = lay_out(holdings, slots=3, feature_slots=3, seed=0, overlap=OverlapRule.ERROR)
    with pytest.raises(InvalidConfig, match="these are vertical"):
        FederationSetup(config, roster, attempt=1)._lay_out(aligned)


def test_a_training_is_refused_before_anything_is_loaded(rows_only: str) -> None:
    with pytest.raises(InvalidConfig, match="these are hybrid"):
        Demonstration.prepare(DemonstrationOptions(algorithm=rows_only, loss="cubic"))
    with pytest.raises(InvalidConfig, match="'nothing' is not one of"):
        Demonstration.prepare(DemonstrationOptions(algorithm="nothing"))
