"""The tables of several parties in one folder, and the table that they make together.

    FOLDER/NAME/    the table of the party NAME, with its shard.toml, as `fenchel data init` leaves it

Only a demonstration has all tables in one place. It pools and prepares them as a run with `[features]` does, to know
the optimum that the run is to reach.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from fenchel_common.data.categories import Vocabulary
from fenchel_common.data.datasets import Dataset
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput
from fenchel_common.runconfig import FeaturesConfig

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


def pooled(name: str, tables: Mapping[str, Shard], config: FeaturesConfig) -> Dataset:
    """The samples that have a label, with the features of all parties, prepared as a run with `config` does.

    The features are sorted by name. Labels and weights are as the tables have them.
    """
    vocabulary = agreed(tables.values(), config)
    shards = {party: table.expanded(vocabulary) for party, table in tables.items()}
    labels = _by_sample((shard.ids, shard.y) for shard in shards.values())
    weights = _by_sample((shard.ids, shard.weights) for shard in shards.values())
    if not labels:
        raise InvalidInput(f"{name}: no table has labels; name their column under [label] in a shard.toml")
    features = tuple(sorted({feature for shard in shards.values() for feature in shard.features}))
    row_of = {sample: row for row, sample in enumerate(labels)}
    column_of = {feature: column for column, feature in enumerate(features)}
    flags = np.array([feature in vocabulary.flags() for feature in features])
    prepare = _standardised if config.scale == "standard" else _divided
    return Dataset(
        name,
        prepare(shards, row_of, column_of, flags),
        np.array(list(labels.values())),
        features,
        np.array([weights[sample] for sample in labels]) if weights else None,
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


Indices = Mapping[str, int]
Flags = NDArray[np.bool_]


def _standardised(shards: Mapping[str, Shard], row_of: Indices, column_of: Indices, flags: Flags) -> Matrix:
    X = np.full((len(row_of), len(column_of)), np.nan)
    for shard in reversed(list(shards.values())):
        used = [row for row, sample in enumerate(shard.ids) if sample in row_of]
        rows, columns = [row_of[shard.ids[row]] for row in used], [column_of[name] for name in shard.features]
        X[np.ix_(rows, columns)] = np.asarray(shard.X)[used]
    there = ~np.isnan(X)
    counts = np.maximum(there.sum(axis=0), 1)
    centred = np.where(there, X - np.where(there, X, 0.0).sum(axis=0) / counts, 0.0)
    deviations = np.sqrt((centred**2).sum(axis=0) / counts)
    return np.asarray(centred / np.where((deviations > 0.0) & ~flags, deviations, 1.0))


def _divided(shards: Mapping[str, Shard], row_of: Indices, column_of: Indices, flags: Flags) -> Matrix:
    shape = len(row_of), len(column_of)
    parts: list[tuple[Array, NDArray[np.int64], NDArray[np.int64]]] = []
    counts = np.zeros(shape[1])
    for name, shard in shards.items():
        if shard.imputed:
            raise InvalidInput(f"{name}: a demonstration with sparse tables has no missing cells; fill them in")
        used = np.array([row for row, sample in enumerate(shard.ids) if sample in row_of], dtype=np.int64)
        own = coo_array(shard.X[used])
        rows = np.array([row_of[shard.ids[row]] for row in used], dtype=np.int64)
        columns = np.array([column_of[feature] for feature in shard.features], dtype=np.int64)
        counts[columns] += len(used)
        parts.append((own.data, rows[own.row], columns[own.col]))
    data, all_rows, all_columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    squares = np.bincount(all_columns, weights=data**2, minlength=shape[1])
    scale = np.where(flags, 1.0, np.sqrt(squares / np.maximum(counts, 1.0)))
    return csr_array((data / scale[all_columns], (all_rows, all_columns)), shape=shape)
