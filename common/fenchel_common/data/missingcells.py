"""Missing cells of a party's features, and whether a run deals with them."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from fenchel_common.data.categories import Category
from fenchel_common.data.shard import Matrix
from fenchel_common.errors import InvalidInput
from fenchel_common.runsections import FeaturesConfig


def missing_cells(X: Matrix, features: Sequence[str]) -> dict[str, int]:
    """The number of missing cells of each feature that has any; `features` are the names of the columns of X."""
    if isinstance(X, csr_array):
        counts = np.bincount(X.indices[np.isnan(X.data)], minlength=len(features))
    else:
        counts = np.array([np.count_nonzero(np.isnan(column)) for column in X.T])
    return {features[position]: int(counts[position]) for position in np.flatnonzero(counts).tolist()}


def check_prepared(
    missing: Mapping[str, int],
    *,
    sparse: bool,
    categories: Sequence[Category] = (),
    config: FeaturesConfig | None,
) -> None:
    """Refuses a run that does not prepare a table as it must be prepared; `InvalidInput` names column and cure."""
    unlisted = [category.column for category in categories if not category.listed]
    if unlisted and config is None:
        others = f", as are {len(unlisted) - 1} other columns" if len(unlisted) > 1 else ""
        raise InvalidInput(
            f"column {unlisted[0]!r}: is a category without values in shard.toml{others}, and the parties agree on "
            "values only in a run with [features]; let the operator write that section into run.toml, or list the "
            "values, the same at every party that has the column"
        )
    if missing and (config is None or config.missing == "refuse"):
        name, count = next(iter(missing.items()))
        others = f", as are some of {len(missing) - 1} other columns" if len(missing) > 1 else ""
        raise InvalidInput(
            f"column {name!r}: {count} cells are missing{others}, and the run fills none in; let the operator write "
            '[features] into run.toml, or choose missing = "drop" or "fill" in shard.toml'
        )
    if sparse and config is not None and config.scale not in ("rms", "none"):
        raise InvalidInput(
            "the table is sparse, and the run shifts features, which would fill every cell; let the operator write "
            'scale = "rms" under [features] in run.toml, or leave out sparse = true in shard.toml'
        )
