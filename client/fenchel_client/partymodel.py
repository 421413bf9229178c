"""A party's part of the model when its run is over, with all that a new row needs to be scored."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fenchel_client.activerun import ActiveRun
from fenchel_client.runtable import run_vocabulary
from fenchel_client.scaling import Scaling
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.categories import Vocabulary, missing_name, other_name, value_name
from fenchel_common.intercept import INTERCEPT
from fenchel_common.labelscaling import LabelScaling
from fenchel_common.losses import LOSSES
from fenchel_common.model import Certificate, Feature, Model, ModelRecord, Provenance, Standardised
from fenchel_common.model.record import Kind, Task
from fenchel_common.setup import ModelPart
from fenchel_common.wire.frames import PROTOCOL_VERSION

Array = NDArray[np.float64]


def party_model(active: ActiveRun, part: ModelPart, weights: Array, own: PartyTable) -> Model:
    """The model of the run that is over.

    `weights` are those of the features of the run's table, sorted by name; `own` is the party's table as it was before
    the run made features of it, whose order of columns the model has.
    """
    names = sorted(active.table.features)
    position_of = {name: position for position, name in enumerate(names)}
    features = _features(active, own, position_of)
    order = np.array([position_of[feature.name] for feature in features], dtype=np.int64)
    intercept = None
    if INTERCEPT in position_of:
        position = position_of[INTERCEPT]
        intercept = np.asarray(weights[position] * active.settings.constant)
    task, classes = _task(active.settings, weights)
    return Model(_record(active, part, own, features, task, classes), weights[order], intercept)


def _features(active: ActiveRun, own: PartyTable, position_of: dict[str, int]) -> tuple[Feature, ...]:
    kept, config = active.kept, active.kept.config.features
    scaling = Scaling.from_bytes(kept.scaling, features=len(position_of)) if kept.scaling else None
    means = scaling is not None and config is not None and config.missing == "mean"
    found = []
    for name, kind, column, value in _described(own, run_vocabulary(own, kept.vocabulary)):
        position = position_of[name]
        missing = float(scaling.missing[position]) if scaling is not None and means and kind != "missing" else None
        if column in own.fills and kind != "missing":
            missing = own.fills[column]
        shift, scale = (0.0, 1.0) if scaling is None else (scaling.shift[position], scaling.scale[position])
        found.append(Feature(name, kind, column, value, float(shift), float(scale), missing))
    assert len(found) == len(position_of) - (INTERCEPT in position_of), "every feature has one description"
    return tuple(found)


def _described(own: PartyTable, vocabulary: Vocabulary) -> Iterator[tuple[str, Kind, str, str | None]]:
    """Name, kind, column and value of each feature that a run makes of the table, in the order of its columns."""
    columns = {*own.features, *(category.column for category in own.categories)}
    indicators = {missing_name(column): column for column in columns}
    for name in own.features:
        if name in indicators:
            yield name, "missing", indicators[name], None
            continue
        yield name, "number", name, None
        if name in vocabulary.indicators and missing_name(name) not in columns:
            yield missing_name(name), "missing", name, None
    for category in own.categories:
        column = category.column
        for value in vocabulary.values[column]:
            yield value_name(column, value), "category", column, value
        if column in vocabulary.others:
            yield other_name(column), "other", column, None
        if column in vocabulary.indicators and missing_name(column) not in columns:
            yield missing_name(column), "missing", column, None


def _record(
    active: ActiveRun,
    part: ModelPart,
    own: PartyTable,
    features: tuple[Feature, ...],
    task: Task,
    classes: tuple[str, ...],
) -> ModelRecord:
    config, layout, settings = active.kept.config, active.layout, active.settings
    labelled = layout.party in layout.label_holders
    if task == "binary" and labelled:
        classes = own.label_names or ("-1", "1")
    intercept: Literal["held", "elsewhere", "none"] = "none"
    if config.features is not None and config.features.intercept:
        intercept = "held" if INTERCEPT in active.table.features else "elsewhere"
    standardised = settings.label_rules.standardise
    target = None
    if standardised and labelled:
        labels = LabelScaling.from_bytes(active.kept.labels)
        target = Standardised(labels.shift, labels.scale)
    return ModelRecord(
        run=active.run,
        name=config.name,
        party=layout.party,
        parties=layout.clients,
        task=task,
        loss=settings.loss,
        lambda_=settings.lambda_,
        classes=classes,
        standardised=standardised,
        target=target,
        intercept=intercept,
        unit_rows=config.features is not None and config.features.rows == "unit",
        all_features=layout.feature_count - (intercept != "none"),
        certificate=Certificate(part.primal, part.dual, part.gap),
        provenance=_provenance(active),
        features=features,
        figures=part.figures,
        own_figures=active.participant.own_scores(),
    )


def _task(settings: AlgorithmSettings, weights: Array) -> tuple[Task, tuple[str, ...]]:
    """What the model predicts, and the names of several classes; the multinomial loss has numbers from 0."""
    if weights.ndim == 2:
        return "classes", settings.class_names or tuple(map(str, range(weights.shape[1])))
    return ("regression" if LOSSES[settings.loss].regression else "binary"), ()


def _provenance(active: ActiveRun) -> Provenance:
    config, public = active.kept.config, active.key.public
    return Provenance(
        configuration=config.model_dump(mode="json"),
        configuration_sha256=config.digest().hex(),
        privacy=config.privacy,
        cipher=config.cipher_in_use,
        key_bits=None if public is None else public.bits,
        key_fingerprint=None if public is None else public.fingerprint.hex(),
        rounds=active.kept.round,
        samples=active.layout.sample_count,
        own_samples=len(active.layout.rows),
        protocol_version=PROTOCOL_VERSION,
        software=version("fenchel"),
    )
