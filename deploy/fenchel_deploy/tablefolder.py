"""The tables of several parties in one folder, and the table that they make together.

    FOLDER/NAME/    the table of the party NAME, with its shard.toml, as `fenchel data init` leaves it

Only a demonstration has all tables in one place. It pools and prepares them as a run with `[features]` does, to know
the optimum that the run is to reach.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common import defaults
from fenchel_common.data.categories import Vocabulary
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput
from fenchel_common.intercept import INTERCEPT
from fenchel_common.losses import LOSSES
from fenchel_common.ranges import RangeScale
from fenchel_common.runconfig import SamplesWord
from fenchel_common.runsections import FeaturesConfig
from fenchel_deploy.pooledtable import complete_samples, prepared

Array = NDArray[np.float64]


def table_folders(folder: Path) -> dict[str, Path]:
    """The folder of each party, by name."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: is no folder; give one that has a folder with a table for each party")
    found = {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")}
    if not found:
        raise InvalidInput(f"{folder}: has no folders; make one for each party, with its table in it")
    return found


def read_tables(folders: Mapping[str, Path]) -> dict[str, Shard]:
    """The shard of each party; `InvalidInput` or `Refusal` names the file at fault."""
    return {name: load_shard(path).shard for name, path in folders.items()}


def scale_of(shards: Mapping[str, Shard]) -> Literal["standard", "rms"]:
    """How features can be scaled: a sparse table must keep its zeros."""
    return "rms" if any(isinstance(shard.X, csr_array) for shard in shards.values()) else "standard"


def run_preparation(features: Mapping[str, object], samples: SamplesWord) -> dict[str, object]:
    """What a run's file says of the features and samples of tables, the acknowledgement that a scale needs included."""
    extremes = features.get("scale") in get_args(RangeScale)
    return {"features": dict(features), "samples": samples, "acknowledge_extremes": extremes}


def label_settings(shards: Mapping[str, Shard], loss: str) -> dict[str, object]:
    """The settings that a run with this loss needs for the labels of these tables."""
    weighted = any(shard.weights is not None for shard in shards.values())
    numbers = loss in LOSSES and LOSSES[loss].regression
    chosen: dict[str, object] = {"sample_weights": True} if weighted else {}
    return chosen | ({"target_scale": "standard"} if numbers else {})


def pooled(
    name: str, tables: Mapping[str, Shard], config: FeaturesConfig, *, samples: SamplesWord = defaults.SAMPLES
) -> Dataset:
    """The samples that a run uses, with the features of all parties, prepared as a run with `config` does.

    The features are sorted by name, and the intercept's comes last. Labels and weights are as the tables have them.
    """
    vocabulary = agreed(tables.values(), config)
    shards = [table.expanded(vocabulary) for table in tables.values()]
    labels = _by_sample((shard.ids, shard.y) for shard in shards)
    weights = _by_sample((shard.ids, shard.weights) for shard in shards)
    if not labels:
        raise InvalidInput(f"{name}: no table has labels; name their column under [label] in a shard.toml")
    used = complete_samples(shards, list(labels)) if samples == "complete" else list(labels)
    if not used:
        raise InvalidInput(f"{name}: of no sample with a label the tables have every feature; use samples = 'labelled'")
    features = sorted({feature for shard in shards for feature in shard.features})
    return Dataset(
        name,
        prepared(shards, used, features, made=vocabulary.flags(), config=config),
        np.array([labels[sample] for sample in used]),
        (*features, INTERCEPT) if config.intercept else tuple(features),
        np.array([weights[sample] for sample in used]) if weights else None,
    )


def agreed(tables: Iterable[Shard], config: FeaturesConfig) -> Vocabulary:
    """The vocabulary on which parties with these tables agree."""
    offers = []
    for table in tables:
        missing = {category.column for category in table.categories if category.missing} | table.imputed
        indicated = missing if config.indicators else ()
        offers.append(Vocabulary.offered(table.categories, least=config.category_samples, missing=indicated))
    return Vocabulary.union(offers)


def _by_sample(columns: Iterable[tuple[Sequence[str], Array | None]]) -> dict[str, float]:
    return {
        sample: float(value)
        for ids, values in columns
        if values is not None
        for sample, value in zip(ids, values, strict=True)
    }
