"""Small models, as a party would have them after a run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fenchel_common.model import Certificate, Feature, Model, ModelRecord, Provenance

DIGEST: Final = "ab" * 32

NUMBERS: Final = (
    Feature("age", "number", "age", None, 50.0, 10.0, 50.0),
    Feature("height", "number", "height", None, 1.7, 0.1, 1.6),
)
PAINS: Final = (
    Feature("pain=dull", "category", "pain", "dull", 0.25, 1.0, 0.25),
    Feature("pain=sharp", "category", "pain", "sharp", 0.5, 1.0, 0.5),
    Feature("pain is other", "other", "pain", None, 0.25, 1.0, 0.25),
    Feature("pain is missing", "missing", "pain", None, 0.1, 1.0, None),
)


def small_record(features: Sequence[Feature] = NUMBERS + PAINS, **changes: Any) -> ModelRecord:
    record = ModelRecord(
        run="run-0a1b2c3d",
        name="first",
        party="clinic",
        parties=("clinic", "lab"),
        task="binary",
        loss="logistic",
        lambda_=0.1,
        classes=("no", "yes"),
        standardised=False,
        target=None,
        intercept="none",
        unit_rows=False,
        all_features=len(features),
        certificate=Certificate(0.5, 0.4999, 0.0001),
        provenance=Provenance(
            configuration={"name": "first", "settings": {"lambda": 0.1}},
            configuration_sha256=DIGEST,
            privacy="sealed",
            cipher="paillier",
            key_bits=3072,
            key_fingerprint=DIGEST,
            rounds=11,
            samples=100,
            own_samples=60,
            protocol_version=6,
            software="0.1.0",
        ),
        features=tuple(features),
    )
    return replace(record, **changes)


def small_model(features: Sequence[Feature] = NUMBERS + PAINS, **changes: Any) -> Model:
    """A model whose weights are 1, −2, 3, …; with an intercept of 0.5 if its record says that it has one."""
    record = small_record(features, **changes)
    several = (len(record.classes),) if record.task == "classes" else ()
    count = len(features) * (several[0] if several else 1)
    weights = np.arange(1.0, count + 1) * np.where(np.arange(count) % 2, -1.0, 1.0)
    intercept = np.full(several, 0.5) if record.intercept == "held" else None
    return Model(record, weights.reshape(len(features), *several), intercept)
