"""The parts of a model that several parties have, as one model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fenchel_common.errors import InvalidInput
from fenchel_common.model.record import Array, Feature, Model, ModelRecord

TOLERANCE: Final = 1e-9
"""The most by which the weights of one feature may differ between its holders."""


def joined(parts: Sequence[Model]) -> Model:
    """The model of all these parts; `InvalidInput` if they are of different runs, or contradict each other."""
    first, *others = parts
    for other in others:
        first = _with(first, other)
    return first


def lacking(model: Model) -> str:
    """What of the whole model is not in these parts, in words; empty if nothing is lacking."""
    record = model.record
    found = []
    if len(record.features) < record.all_features:
        found.append(f"{record.all_features - len(record.features)} of {record.all_features} features")
    if record.intercept == "elsewhere":
        found.append("the intercept, which parties with labels have")
    if record.standardised and record.target is None:
        found.append("the unit of the numbers to predict, which parties with labels know")
    return " and ".join(found)


def _with(model: Model, other: Model) -> Model:
    ours, theirs = model.record, other.record
    named = f"the parts of {ours.party} and of {theirs.party}"
    if (ours.run, ours.provenance.configuration_sha256) != (theirs.run, theirs.provenance.configuration_sha256):
        raise InvalidInput(
            f"{named} are not of one run: {ours.run} and {theirs.run}, whose configurations have the digests "
            f"{ours.provenance.configuration_sha256[:16]}… and {theirs.provenance.configuration_sha256[:16]}…"
        )
    if ours.classes and theirs.classes and ours.classes != theirs.classes:
        raise InvalidInput(f"{named} name the classes differently: {ours.classes} and {theirs.classes}")
    if model.intercept is not None and other.intercept is not None:
        _check_same(model.intercept, other.intercept, f"{named} have different intercepts")
    features, weights = _features(model, other, named)
    intercept = other.intercept if model.intercept is None else model.intercept
    record = replace(
        ours,
        party=f"{ours.party}, {theirs.party}",
        classes=ours.classes or theirs.classes,
        target=ours.target or theirs.target,
        intercept="held" if intercept is not None else ours.intercept,
        features=features,
        figures=ours.figures or theirs.figures,
        own_figures=None,
    )
    return Model(record, weights, intercept)


def _features(model: Model, other: Model, named: str) -> tuple[tuple[Feature, ...], Array]:
    """The features of both with their weights, those of the first part first."""
    features, position_of = list(model.record.features), {name: at for at, name in enumerate(model.names)}
    new = []
    for position, feature in enumerate(other.record.features):
        at = position_of.get(feature.name)
        if at is None:
            new.append(position)
            continue
        ours, differ = features[at], f"{named} differ in feature {feature.name!r}"
        if replace(ours, missing=None) != replace(feature, missing=None):
            raise InvalidInput(f"{differ}: what it is made of, or how its values are prepared")
        _check_same(model.weights[at], other.weights[position], f"{differ}: its weight")
        if ours.missing != feature.missing:
            # Parties that fill missing cells in by their own tables may fill in different numbers.
            features[at] = replace(ours, missing=None)
    features += [other.record.features[position] for position in new]
    return tuple(features), np.concatenate([model.weights, other.weights[new]])


def _check_same(ours: Array, theirs: Array, fault: str) -> None:
    if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE):
        raise InvalidInput(f"{fault}; one of the files is not of this run")


def described(record: ModelRecord) -> str:
    """The model in one line, for messages."""
    return f"run {record.run} ({record.name}), parts of {record.party}"
