"""The sections of a run's configuration that hold for every algorithm."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fenchel_common import defaults
from fenchel_common.algorithms.settings import PositiveFloat


class Section(BaseModel):
    """A section of the configuration: no other keys than its own, and no other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class KeyConfig(Section):
    """The Paillier key of the run; `subgroup` keys decrypt faster under one more assumption.

    With every cipher, and without any, blocks of vectors are as large as under a key of `bits` bits.
    """

    bits: Literal[2048, 3072] = defaults.KEY_BITS
    kind: Literal["standard", "subgroup"] = defaults.KEY_KIND


class RoundConfig(Section):
    """The rules for clients that are slow or gone.

    A phase ends when no party that owes a result has worked on it, sent or received any of it for `deadline_s`, and in
    any case after 30 times as long. A round counts if at least the fraction `quorum` of the clients is connected
    and answers. Otherwise it is tried again, `attempts` times in all, after waiting up to `wait_s` for clients to
    return.
    """

    deadline_s: Annotated[float, Field(gt=0, le=86_400)] = defaults.DEADLINE_S
    quorum: Annotated[float, Field(gt=0, le=1)] = defaults.QUORUM
    attempts: Annotated[int, Field(ge=1, le=100)] = defaults.ATTEMPTS
    wait_s: Annotated[float, Field(gt=0, le=604_800)] = defaults.WAIT_S


class ReleaseConfig(Section):
    """Noise on the model that the server gets if the roster releases it: (ε, δ)-differential privacy of a sample.

    `row_bound` is the greatest length ‖x_i‖ of a whole row. A party with a longer one does not take part.
    """

    epsilon: Annotated[float, Field(gt=0, le=50)]
    delta: Annotated[float, Field(ge=1e-15, lt=1)]
    row_bound: PositiveFloat


class FeaturesConfig(Section):
    """How features are prepared, by encrypted sums over all holders of each feature.

    `scale`: "standard" gives every feature the mean 0 and the standard deviation 1; "rms" divides by the root of the
    mean square, which keeps zeros zero, for sparse tables; "minmax" brings values between 0 and 1; "quantile" gives the
    median 0 and the distance 1 between the quartiles; "none" leaves values as they are. `missing`: a missing cell
    gets the feature's "mean", or the run is one for tables without missing cells ("refuse"). `category_samples`: a
    party tells the others of a value of a category only if so many of its own samples have it; all other values are
    one feature. `indicators`: every column with missing cells at any party has a further feature, 1 where the cell is
    missing. `intercept`: the model has an intercept, which is not regularised. `rows`: "unit" divides every whole row
    by its length, after all else. `fewest_values`: extremes and quantiles are learnt only of features with so many
    values, at all holders together.
    """

    scale: Literal["standard", "rms", "minmax", "quantile", "none"] = defaults.SCALE
    missing: Literal["mean", "refuse"] = defaults.MISSING
    category_samples: Annotated[int, Field(ge=5, le=1_000_000)] = defaults.CATEGORY_SAMPLES
    indicators: bool = defaults.INDICATORS
    intercept: bool = defaults.INTERCEPT
    rows: Literal["none", "unit"] = defaults.ROWS
    fewest_values: Annotated[int, Field(ge=10, le=1_000_000)] = defaults.FEWEST_VALUES
