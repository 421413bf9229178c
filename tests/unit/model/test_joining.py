"""Parts of a model, put together: what the parties have alike must be alike, and what is lacking is said."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.model import Model
from fenchel_common.model.joining import joined, lacking
from support.models import NUMBERS, PAINS, small_model

BOTH = len(NUMBERS) + len(PAINS)


def part(features: Any = NUMBERS, **changes: Any) -> Model:
    return small_model(features, all_features=BOTH, **changes)


def test_parts_become_the_whole_model_with_what_each_of_them_knows() -> None:
    clinic = part(intercept="held")
    lab = part(PAINS, party="lab", intercept="elsewhere", classes=())
    assert lacking(lab) == "2 of 6 features and the intercept, which parties with labels have"
    assert lacking(clinic) == "4 of 6 features"
    for parts in ([clinic, lab], [lab, clinic], [lab, clinic, lab, clinic]):
        model = joined(parts)
        assert lacking(model) == ""
        assert model.record.classes == ("no", "yes")
        weights = dict(zip(model.names, model.weights.tolist(), strict=True))
        given = [*zip(clinic.names, clinic.weights.tolist(), strict=True)]
        assert weights == dict([*given, *zip(lab.names, lab.weights.tolist(), strict=True)])
        assert model.intercept == 0.5


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (part(run="run-2"), "are not of one run: run-0a1b2c3d and run-2"),
        (part(provenance=replace(part().record.provenance, configuration_sha256="00")), "are not of one run"),
        (part(classes=("yes", "no")), "name the classes differently"),
        (part(intercept="held"), "different intercepts"),
        (part((replace(NUMBERS[0], scale=3.0), NUMBERS[1])), "differ in feature 'age': what it is made of, or how"),
        (Model(part().record, np.array([1.0, 7.0])), "differ in feature 'height': its weight"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(other: Model, said: str) -> None:
    ours = part()
    if other.intercept is not None:
        ours = part(intercept="held")
        other = Model(other.record, other.weights, np.array(0.25))
    with pytest.raises(InvalidInput, match=said):
        joined([ours, other])


def test_a_column_that_holders_fill_in_differently_has_no_value_for_missing_cells() -> None:
    other = part((replace(NUMBERS[0], missing=40.0), NUMBERS[1]), party="south")
    model = joined([part(), other])
    assert [one.missing for one in model.record.features] == [None, 1.6]
