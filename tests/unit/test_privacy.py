"""Privacy levels: their order, their words, and what each encrypts."""

import json

import pytest

from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig


def test_levels_are_ordered_by_how_little_they_show_and_not_by_their_letters() -> None:
    assert sorted(["sealed", "plain", "paper"]) == ["paper", "plain", "sealed"]
    assert sorted([Privacy.SEALED, Privacy.PLAIN, Privacy.PAPER]) == [Privacy.PLAIN, Privacy.PAPER, Privacy.SEALED]
    assert Privacy.PLAIN < Privacy.PAPER < Privacy.SEALED
    assert Privacy.SEALED > Privacy.PAPER >= Privacy.PAPER > Privacy.PLAIN
    assert Privacy.PLAIN <= Privacy.PLAIN


@pytest.mark.parametrize(
    ("level", "samples", "features"),
    [(Privacy.PLAIN, False, False), (Privacy.PAPER, True, False), (Privacy.SEALED, True, True)],
)
def test_a_level_knows_what_it_encrypts(level: Privacy, samples: bool, features: bool) -> None:
    assert (level.encrypts_samples, level.encrypts_features) == (samples, features)


@pytest.mark.parametrize("level", Privacy)
def test_a_configuration_has_a_level_by_its_word(level: Privacy) -> None:
    values = {"name": "test", "privacy": level.value, "benchmark": True, "acknowledge_row_leak": True}
    config = RunConfig.from_mapping(values)
    assert config.privacy is level
    assert config.algorithm_settings().privacy is level
    assert json.loads(config.to_json())["privacy"] == level.value
    assert RunConfig.from_json(config.to_json()).privacy is level
