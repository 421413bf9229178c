"""The configuration of a run: read from TOML, checked as a whole before the run starts, stored with the run as JSON."""

import difflib
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from fenchel_common import defaults
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.fitting import (
    check_label_settings,
    check_loss,
    check_precision,
    check_privacy,
    with_intercept,
)
from fenchel_common.algorithms.row_leak import check_row_leak
from fenchel_common.algorithms.settings import (
    RUN_LEVEL,
    AlgorithmSettings,
    PositiveFloat,
    Precision,
    PrivacyWord,
    StopRules,
)
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.errors import InvalidConfig
from fenchel_common.privacy import CipherWord, Privacy
from fenchel_common.ranges import RangeScale
from fenchel_common.release import ReleaseNoise, checked_goal

TERMS_LABEL = b"fenchel/v1/terms\x00"
MAX_TOML_BYTES = 1 << 20
"""A configuration is a page of text; a larger file was given by mistake."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class KeyConfig(_Section):
    """The Paillier key of the run; `subgroup` keys decrypt faster under one more assumption.

    With every cipher, and without any, blocks of vectors are as large as under a key of `bits` bits.
    """

    bits: Literal[2048, 3072] = defaults.KEY_BITS
    kind: Literal["standard", "subgroup"] = defaults.KEY_KIND


class RoundConfig(_Section):
    """The rules for clients that are slow or gone.

    Every phase ends after `deadline_s`. A round counts if at least the fraction `quorum` of the clients is connected
    and answers. Otherwise it is tried again, `attempts` times in all, after waiting up to `wait_s` for clients to
    return.
    """

    deadline_s: Annotated[float, Field(gt=0, le=86_400)] = defaults.DEADLINE_S
    quorum: Annotated[float, Field(gt=0, le=1)] = defaults.QUORUM
    attempts: Annotated[int, Field(ge=1, le=100)] = defaults.ATTEMPTS
    wait_s: Annotated[float, Field(gt=0, le=604_800)] = defaults.WAIT_S


class ReleaseConfig(_Section):
    """Noise on the model that the server gets if the roster releases it: (ε, δ)-differential privacy of a sample.

    `row_bound` is the greatest length ‖x_i‖ of a whole row. A party with a longer one does not take part.
    """

    epsilon: Annotated[float, Field(gt=0, le=50)]
    delta: Annotated[float, Field(ge=1e-15, lt=1)]
    row_bound: PositiveFloat


class FeaturesConfig(_Section):
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


class RunConfig(_Section):
    """The whole configuration of a run; `settings` are those of its algorithm.

    `acknowledge_row_leak` lets a run at the level `paper` start although the server can work out rows in it, and
    `acknowledge_extremes` one in which the holders of a feature learn values of single samples.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    algorithm: str = defaults.ALGORITHM
    settings: dict[str, object] = Field(default_factory=dict)
    privacy: PrivacyWord = defaults.PRIVACY
    benchmark: bool = False
    acknowledge_row_leak: bool = False
    acknowledge_extremes: bool = False
    cipher: CipherWord = defaults.CIPHER
    key: KeyConfig = KeyConfig()
    alignment: Literal["ecdh", "hmac"] = defaults.ALIGNMENT
    overlap: Literal["error", "first"] = defaults.OVERLAP
    samples: Literal["complete", "labelled", "impute"] = defaults.SAMPLES
    features: FeaturesConfig | None = None
    precision: Precision = defaults.PRECISION
    round: RoundConfig = RoundConfig()
    stop: StopRules = StopRules()
    release: ReleaseConfig | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None

    @field_validator("algorithm")
    @classmethod
    def _known_algorithm(cls, algorithm: str) -> str:
        if algorithm not in SETTINGS:
            raise PydanticCustomError("algorithm", "use one of {known}", {"known": ", ".join(sorted(SETTINGS))})
        return algorithm

    @model_validator(mode="after")
    def _plain_is_marked(self) -> Self:
        if self.privacy is Privacy.PLAIN and not self.benchmark:
            raise PydanticCustomError(
                "plain",
                "privacy = 'plain' sends everything unencrypted; set benchmark = true if that is what the run is for, "
                "or use privacy = 'sealed'",
            )
        return self

    @model_validator(mode="after")
    def _features_fit(self) -> Self:
        if self.samples == "impute" and (self.features is None or self.features.scale != "standard"):
            raise PydanticCustomError(
                "impute",
                "samples = 'impute' needs features of mean 0; add a section [features], whose scale is 'standard' "
                "unless it says otherwise, or use samples = 'labelled'",
            )
        if self.range_scale is not None and not self.acknowledge_extremes:
            raise PydanticCustomError(
                "extremes",
                "features.scale = '{scale}' shows the holders of a feature values of single samples; set "
                "acknowledge_extremes = true if they may learn them, or use scale = 'standard'",
                {"scale": self.range_scale},
            )
        if self.release is not None and self.features is not None:
            raise PydanticCustomError(
                "release",
                "the noise of [release] does not cover a scale that is learnt from the samples; prepare the features "
                "beforehand and leave out [features]",
            )
        return self

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], *, source: str = "the run's configuration") -> Self:
        """Checks a configuration and its algorithm's settings; `InvalidConfig` names the first field at fault."""
        try:
            config = cls.model_validate(dict(values))
        except ValidationError as error:
            raise InvalidConfig(f"{source}: {_explain(error)}") from None
        try:
            check_row_leak(config.algorithm_settings(), acknowledged=config.acknowledge_row_leak)
            if config.release is not None:
                _check_released_labels(config.algorithm_settings())
                checked_goal(config.algorithm_settings(), gap=config.stop.gap, quorum=config.round.quorum)
        except InvalidConfig as error:
            raise InvalidConfig(f"{source}: {error}") from None
        return config

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Reads and checks a configuration file."""
        try:
            text = path.read_bytes()
        except OSError as error:
            raise InvalidConfig(f"cannot read {path}: {error.strerror}") from None
        if len(text) > MAX_TOML_BYTES:
            raise InvalidConfig(f"{path} has more than {MAX_TOML_BYTES} bytes; name the run's TOML file")
        try:
            values = tomllib.loads(text.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InvalidConfig(f"{path} is not valid TOML: {error}") from None
        return cls.from_mapping(values, source=str(path))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads back what `to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InvalidConfig(f"the recorded configuration: {_explain(error)}") from None

    def to_json(self) -> str:
        """The whole configuration, defaults included."""
        return self.model_dump_json()

    def digest(self) -> bytes:
        """SHA-256 of the whole configuration. Parties compare it to know that they take part in the same run."""
        return hashlib.sha256(TERMS_LABEL + self.to_json().encode()).digest()

    def algorithm_settings(self) -> AlgorithmSettings:
        """The algorithm's settings, checked; seed and stopping rules are the run's.

        If the terms name no seed, the parties derive one in the set-up, and it replaces the seed of these settings.
        """
        for name in RUN_LEVEL & self.settings.keys():
            raise InvalidConfig(f"settings.{name}: the whole run has one; set {name} beside settings, not inside")
        check_privacy(self.algorithm, self.privacy)
        try:
            check_loss(self.algorithm, self.settings.get("loss"))
            check_label_settings(self.algorithm, self.settings)
            run_level = {
                "precision": self.precision,
                "privacy": self.privacy,
                "seed": self.seed or 0,
                "stop": self.stop.model_dump(),
            }
            settings = SETTINGS[self.algorithm].parse({**self.settings, **run_level})
        except InvalidConfig as error:
            raise InvalidConfig(f"settings.{error}") from None
        check_precision(settings)
        return with_intercept(settings) if self.features is not None and self.features.intercept else settings

    @property
    def prepares(self) -> bool:
        """Whether the parties learn figures of features or labels by encrypted sums before the first round."""
        return self.features is not None or self.algorithm_settings().label_rules.learns

    @property
    def range_scale(self) -> RangeScale | None:
        """The scale of features, if the parties search for extremes or quantiles; else None."""
        scale = None if self.features is None else self.features.scale
        return scale if scale in ("minmax", "quantile") else None

    def sample_slots(self, parties: int) -> int:
        """The most samples in a block, in a federation of so many parties."""
        bits = self.algorithm_settings().slot_bits(parties)
        return slot_layout(VectorFormat(slot_bits=bits), self.key.bits).slots

    @property
    def feature_slots(self) -> int:
        """The most features in a block: vectors by feature have slots of 64 bits."""
        return slot_layout(VectorFormat(), self.key.bits).slots

    @property
    def cipher_in_use(self) -> CipherWord | None:
        """The cipher that hides vectors; None in a run in clear."""
        return self.cipher if self.privacy.encrypts_samples else None

    @property
    def has_paillier_key(self) -> bool:
        return self.cipher_in_use == "paillier"

    @property
    def has_masks(self) -> bool:
        return self.cipher_in_use == "masks"

    def release_noise(self, samples: int) -> ReleaseNoise | None:
        """The noise on the released model of a run with `samples` samples; None if the model gets no noise."""
        if self.release is None:
            return None
        return ReleaseNoise.calibrated(
            epsilon=self.release.epsilon,
            delta=self.release.delta,
            row_bound=self.release.row_bound,
            gap=self.stop.gap,
            quorum=self.round.quorum,
            samples=samples,
            settings=self.algorithm_settings(),
        )


def _check_released_labels(settings: AlgorithmSettings) -> None:
    if settings.label_rules.learns:
        raise InvalidConfig(
            "the noise of [release] does not cover class weights or a scale that are learnt from the samples; give "
            "class_weight as numbers, and leave out target_scale"
        )


def _explain(error: ValidationError) -> str:
    """One sentence about the first fault: the field, its value, and what would be right."""
    first, *others = error.errors(include_url=False)
    more = f" ({len(others)} more after this one)" if others else ""
    return _fault(first) + more


def _fault(detail: ErrorDetails) -> str:
    path = [str(part) for part in detail["loc"]]
    field = ".".join(path)
    if detail["type"] == "extra_forbidden":
        known = _known_keys(path[:-1])
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"unknown key {field}; {hint}known here: {', '.join(known)}"
    if detail["type"] == "missing":
        return f"{field} is missing; add it"
    message = detail["msg"].replace("Input should be", "must be").replace("String should", "must")
    given = detail["input"]
    shown = f" = {given!r:.60}" if isinstance(given, str | int | float) else ""
    return f"{field}{shown}: {message}" if field else message


def _known_keys(path: Sequence[str]) -> list[str]:
    section: type[BaseModel] = RunConfig
    for part in path:
        annotation = section.model_fields[part].annotation
        kinds = [annotation, *get_args(annotation)]
        sections = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not sections:
            return []
        section = sections[0]
    return list(section.model_fields)
