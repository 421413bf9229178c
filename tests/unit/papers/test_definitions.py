"""The files of experiments, and the quick form of each."""

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_deploy.papers.definitions import Experiment, experiment_names, load_experiment
from fenchel_deploy.papers.runner import KINDS


def raw(name: str) -> dict[str, Any]:
    return tomllib.loads((files("fenchel_deploy.papers") / "files" / f"{name}.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", experiment_names())
def test_both_forms_of_every_file_are_understood_and_its_claims_name_columns_of_its_rows(name: str) -> None:
    full, quick = load_experiment(name), load_experiment(name, quick=True)
    labels = [setting.label for setting in full.settings]
    assert [setting.label for setting in quick.settings] == [
        label for label in labels if label in {setting.label for setting in quick.settings}
    ]
    columns = {"unit", "rows", *KINDS[full.kind].columns}
    for claim in full.claims:
        sides = [side for side in (claim.left, claim.right) if side is not None and not isinstance(side, int | float)]
        named = {*claim.each, *(side.column for side in sides), *(column for side in sides for column in side.where)}
        assert named <= columns, claim.says


def test_the_quick_form_replaces_values_and_keeps_the_named_settings() -> None:
    values = raw("hyfdca-table6")
    values["quick"] = {"settings": ["500, 0.1"], "rounds": 7, "problem": {"rows": 99}}
    quick = Experiment.from_mapping(values, quick=True, source="here")
    assert [setting.label for setting in quick.settings] == ["500, 0.1"]
    assert (quick.rounds, quick.problem.rows, quick.problem.dataset) == (7, 99, "mnist")
    assert len(Experiment.from_mapping(values, quick=False, source="here").settings) == 9


def test_a_fault_in_a_file_is_named_with_its_place() -> None:
    values = raw("hyfdca-table6")
    values["quick"]["settings"] = ["7, 0.1"]
    with pytest.raises(InvalidConfig, match=r"here: quick\.settings: '7, 0.1' is no setting"):
        Experiment.from_mapping(values, quick=True, source="here")
    del values["problem"]["loss"]
    with pytest.raises(InvalidConfig, match=r"here: problem\.loss: Field required"):
        Experiment.from_mapping(values, quick=False, source="here")


def test_an_experiment_that_is_not_there_is_refused_with_the_names_of_the_others() -> None:
    with pytest.raises(InvalidInput, match=r"'table6' is no experiment.*hyfdca-table6"):
        load_experiment("table6")
