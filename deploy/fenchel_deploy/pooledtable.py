"""The features that parties have together, prepared in one place as a run with `[features]` prepares them.

What a run finds by encrypted sums is computed here from the values themselves, so that both can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, hstack

from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.moments import CONSTANT
from fenchel_common.ranges import RESOLVED
from fenchel_common.runsections import FeaturesConfig

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Positions = NDArray[np.intp]

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A shard's rows among the chosen samples: where they are in the shard, and in the whole table; its columns."""

    shard: Shard = field(repr=False)
    own_rows: Positions
    rows: Positions
    columns: Positions


def complete_samples(shards: Sequence[Shard], samples: Sequence[str]) -> list[str]:
    """The samples of which every feature is held by somebody."""
    held = dict.fromkeys(samples, 0)
    for shard in shards:
        for sample in shard.ids:
            if sample in held:
                held[sample] += len(shard.features)
    features = {feature for shard in shards for feature in shard.features}
    return [sample for sample in samples if held[sample] == len(features)]


def prepared(
    shards: Sequence[Shard],
    samples: Sequence[str],
    features: Sequence[str],
    *,
    made: frozenset[str],
    config: FeaturesConfig,
) -> Matrix:
    """(samples, features) the prepared values, and with an intercept a column of ones after them.

    No two shards have the same feature of the same sample. `made` are the features of 0 and 1 that the run makes.
    """
    row_of = {sample: row for row, sample in enumerate(samples)}
    column_of = {feature: column for column, feature in enumerate(features)}
    parts = []
    for shard in shards:
        own_rows = [row for row, sample in enumerate(shard.ids) if sample in row_of]
        rows = [row_of[shard.ids[row]] for row in own_rows]
        columns = [column_of[feature] for feature in shard.features]
        parts.append(_Part(shard, *(np.array(found, dtype=np.intp) for found in (own_rows, rows, columns))))
    shape, flags = (len(samples), len(features)), np.array([feature in made for feature in features])
    if any(isinstance(shard.X, csr_array) for shard in shards):
        return _sparse(parts, shape, flags, config)
    return _dense(parts, shape, flags, config)


def _dense(parts: Sequence[_Part], shape: tuple[int, int], flags: Flags, config: FeaturesConfig) -> Array:
    """A missing cell is the mean, and one that nobody holds is zero when all is prepared."""
    X, held = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    for part in parts:
        X[np.ix_(part.rows, part.columns)] = np.asarray(part.shard.X)[part.own_rows]
        held[np.ix_(part.rows, part.columns)] = True
    there = ~np.isnan(X)
    means = np.where(there, X, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    shift, scale = _scaling(X, there, means, flags, config)
    table = np.where(held, (np.where(there, X, means) - shift) / scale, 0.0)
    if config.rows == "unit":
        table /= _divisors(np.linalg.norm(table, axis=1))[:, np.newaxis]
    return np.hstack([table, np.ones((len(table), 1))]) if config.intercept else table


def _scaling(X: Array, there: Flags, means: Array, flags: Flags, config: FeaturesConfig) -> tuple[Array, Array]:
    counts = np.maximum(there.sum(axis=0), 1)
    deviations = np.sqrt((np.where(there, X - means, 0.0) ** 2).sum(axis=0) / counts)
    deviations[deviations <= CONSTANT * np.abs(means)] = 0.0
    shift, scale = np.zeros(len(flags)), np.ones(len(flags))
    if config.scale == "standard":
        shift, scale = means, deviations
    elif config.scale == "rms":
        scale = np.sqrt((np.where(there, X, 0.0) ** 2).sum(axis=0) / counts)
    elif config.scale in ("minmax", "quantile"):
        shift, scale = np.where(flags, 0.0, means), deviations
        searched = ~flags & (there.sum(axis=0) >= config.fewest_values) & (deviations > RESOLVED * np.abs(means))
        for column in np.flatnonzero(searched).tolist():
            # A run compares values rounded to float32.
            values = X[there[:, column], column].astype(np.float32).astype(np.float64)
            lower, middle, upper = np.quantile(values, QUARTILES, method="inverted_cdf")
            if config.scale == "minmax":
                lower, middle, upper = values.min(), values.min(), values.max()
            shift[column], scale[column] = middle, upper - lower
    return shift, np.where(flags, 1.0, _divisors(scale))


def _sparse(parts: Sequence[_Part], shape: tuple[int, int], flags: Flags, config: FeaturesConfig) -> csr_array:
    """Nothing is shifted, so that zeros stay zeros."""
    counts, entries = np.zeros(shape[1]), []
    for part in parts:
        own = coo_array(part.shard.X[part.own_rows])
        counts[part.columns] += len(part.rows)
        entries.append((own.data, part.rows[own.row], part.columns[own.col]))
    data, rows, columns = (np.concatenate(one) for one in zip(*entries, strict=True))
    gaps = np.isnan(data)
    counts = np.maximum(counts - np.bincount(columns[gaps], minlength=shape[1]), 1.0)
    means = np.bincount(columns[~gaps], weights=data[~gaps], minlength=shape[1]) / counts
    squares = np.bincount(columns[~gaps], weights=data[~gaps] ** 2, minlength=shape[1]) / counts
    values = np.where(gaps, means[columns], data)
    if config.scale == "rms":
        values /= np.where(flags, 1.0, _divisors(np.sqrt(squares)))[columns]
    if config.rows == "unit":
        values /= _divisors(np.sqrt(np.bincount(rows, weights=values**2, minlength=shape[0])))[rows]
    table = csr_array((values, (rows, columns)), shape=shape)
    return csr_array(hstack([table, csr_array(np.ones((shape[0], 1)))])) if config.intercept else table


def _divisors(lengths: Array) -> Array:
    return np.where(lengths > 0.0, lengths, 1.0)
