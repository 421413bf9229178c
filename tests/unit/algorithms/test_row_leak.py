"""Runs at the level `paper` in which the server can work out rows need to be acknowledged."""

import pytest

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.hyfdca.row_leak import ENOUGH_CHANGES
from fenchel_common.algorithms.row_leak import row_leak
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import InvalidConfig
from fenchel_common.runconfig import RunConfig


def settings(**values: object) -> AlgorithmSettings:
    return SETTINGS["hyfdca"].parse({"loss": "logistic", "local": "paper", "privacy": "paper", **values})


@pytest.mark.parametrize("level", ["sealed", "plain"])
@pytest.mark.parametrize("values", [{"h": 1}, {"local": "corrective"}, {"loss": "hinge"}])
def test_other_levels_have_nothing_to_acknowledge(level: str, values: dict[str, object]) -> None:
    assert row_leak(settings(**values | {"privacy": level}), changes=1, width=100) is None


def test_corrective_steps_and_losses_whose_duals_rest_leak_whatever_h_is() -> None:
    assert "corrective" in (row_leak(settings(local="corrective")) or "")
    for loss in ("hinge", "smoothed_hinge", "huber", "epsilon_insensitive"):
        assert "stay unchanged, for every h" in (row_leak(settings(loss=loss, h=10_000), changes=10_000) or "")
        assert row_leak(settings(loss=loss, local="theory", h=10_000), changes=10_000) is None
    assert row_leak(settings(loss="squared_hinge"), changes=10_000) is not None
    assert row_leak(settings(loss="squared"), changes=10_000) is None


def test_few_changes_in_a_round_leak_and_few_means_fewer_than_features() -> None:
    assert row_leak(settings(), changes=ENOUGH_CHANGES, width=5) is None
    assert "as few as 31" in (row_leak(settings(), changes=ENOUGH_CHANGES - 1, width=5) or "")
    assert "as few as 99 of a party's samples are updated in a round, where 100 would be enough here" in (
        row_leak(settings(), changes=99, width=100) or ""
    )
    assert row_leak(settings(), changes=100, width=100) is None


def test_a_small_whole_h_is_known_to_leak_before_the_shards_are() -> None:
    assert row_leak(settings(h=ENOUGH_CHANGES)) is None
    assert row_leak(settings(h=0.001)) is None
    assert row_leak(settings(h=ENOUGH_CHANGES - 1)) is not None


def test_a_configuration_that_leaks_rows_is_refused_until_it_says_so() -> None:
    leaky = {"name": "trial", "privacy": "paper", "settings": {"loss": "hinge", "local": "paper", "h": 1}}
    with pytest.raises(InvalidConfig) as refused:
        RunConfig.from_mapping(leaky, source="run.toml")
    said = str(refused.value)
    assert said.startswith(
        "run.toml: privacy = 'paper' shows the server every party's contribution to the model in every round"
    )
    assert said.endswith("Use privacy = 'sealed', or set acknowledge_row_leak = true if the server may learn them")
    assert RunConfig.from_mapping({**leaky, "acknowledge_row_leak": True}).privacy == "paper"
    assert RunConfig.from_mapping({**leaky, "privacy": "sealed"}).privacy == "sealed"


def test_other_algorithms_do_not_show_the_server_shares() -> None:
    assert RunConfig.from_mapping({"name": "trial", "algorithm": "fedavg", "privacy": "paper"}).privacy == "paper"
