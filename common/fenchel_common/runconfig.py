"""The configuration of a run: read from TOML, checked as a whole before the run starts, stored with the run as JSON."""

import difflib
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from fenchel_common import defaults
from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.fitting import (
    check_label_settings,
    check_loss,
    check_precision,
    check_privacy,
    with_intercept,
    with_path,
)
from fenchel_common.algorithms.outside import package_of
from fenchel_common.algorithms.row_leak import check_row_leak
from fenchel_common.algorithms.settings import (
    RUN_LEVEL,
    AlgorithmSettings,
    Precision,
    PrivacyWord,
    StopRules,
)
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.errors import InvalidConfig
from fenchel_common.privacy import CipherWord, Privacy
from fenchel_common.ranges import RangeScale
from fenchel_common.release import ReleaseNoise, checked_goal
from fenchel_common.runsections import FeaturesConfig, KeyConfig, ReleaseConfig, RoundConfig, Section
from fenchel_common.selection import LambdaPath

TERMS_LABEL = b"fenchel/v1/terms\x00"
AlignmentWord = Literal["blinders", "ring", "hmac"]
SamplesWord = Literal["complete", "labelled", "impute"]
MAX_TOML_BYTES = 1 << 20
"""A configuration is a page of text; a larger file was given by mistake."""


class RunConfig(Section):
    """The whole configuration of a run; `settings` are those of its algorithm.

    `package` is the package, with its version, that brings the algorithm, so that all parties have the same one; None
    for a built-in algorithm. A file need not name it. `acknowledge_row_leak` lets a run at the level `paper` start
    although the server can work out rows in it, and `acknowledge_extremes` one in which the holders of a feature learn
    values of single samples.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    algorithm: str = defaults.ALGORITHM
    package: str | None = None
    settings: dict[str, object] = Field(default_factory=dict)
    privacy: PrivacyWord = defaults.PRIVACY
    benchmark: bool = False
    acknowledge_row_leak: bool = False
    acknowledge_extremes: bool = False
    cipher: CipherWord = defaults.CIPHER
    key: KeyConfig = KeyConfig()
    alignment: AlignmentWord = defaults.ALIGNMENT
    overlap: Literal["error", "first", "sum"] = defaults.OVERLAP
    samples: SamplesWord = defaults.SAMPLES
    features: FeaturesConfig | None = None
    precision: Precision = defaults.PRECISION
    round: RoundConfig = RoundConfig()
    stop: StopRules = StopRules()
    path: LambdaPath | None = None
    release: ReleaseConfig | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None

    @field_validator("algorithm")
    @classmethod
    def _known_algorithm(cls, algorithm: str) -> str:
        if algorithm not in SETTINGS:
            raise PydanticCustomError(
                "algorithm",
                "not installed here; install the package that brings it, or use one of {known}",
                {"known": ", ".join(sorted(SETTINGS))},
            )
        return algorithm

    @model_validator(mode="after")
    def _package_is_installed(self) -> Self:
        if self.package != (installed := package_of(self.algorithm)):
            raise PydanticCustomError(
                "package",
                "package: the run has the algorithm {algorithm} of {package}, and here it is of {installed}; install "
                "the same package and version everywhere",
                {
                    "algorithm": self.algorithm,
                    "package": self.package or "Fenchel",
                    "installed": installed or "Fenchel",
                },
            )
        return self

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
        if self.overlap == "sum" and self.features is not None:
            raise PydanticCustomError(
                "overlap",
                "overlap = 'sum' takes values as they are, because no party knows which zeros stand for a value of "
                "another one; prepare the features beforehand and leave out [features]",
            )
        if self.release is not None and self.path is not None:
            raise PydanticCustomError(
                "release",
                "the noise of [release] does not cover the choice of a regularisation; leave out [path], and give "
                "settings.lambda",
            )
        if self.release is not None and self.features is not None:
            raise PydanticCustomError(
                "release",
                "the noise of [release] does not cover a scale that is learnt from the samples; prepare the features "
                "beforehand and leave out [features]",
            )
        return self

    @model_validator(mode="after")
    def _scores_are_masked(self) -> Self:
        due = {"cipher": "masks", "samples": "complete", "overlap": "first", "features": None}
        wrong = [name for name, value in due.items() if getattr(self, name) != value]
        if not self.trains and wrong:
            raise PydanticCustomError(
                "scoring",
                "a run with algorithm = 'scoring' needs cipher = 'masks', so that only the asking party can open the "
                "scores, samples = 'complete', overlap = 'first' and no [features]; change: {wrong}",
                {"wrong": ", ".join(wrong)},
            )
        return self

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], *, source: str = "the run's configuration") -> Self:
        """Checks a configuration and its algorithm's settings; `InvalidConfig` names the first field at fault."""
        algorithm = values.get("algorithm")
        package = package_of(algorithm) if isinstance(algorithm, str) else None
        try:
            config = cls.model_validate({"package": package, **values})
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
        """The whole configuration, defaults included; `package` and `path` only if there is one."""
        return self.model_dump_json(exclude={name for name in ("package", "path") if getattr(self, name) is None})

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
        if self.features is not None and self.features.intercept:
            settings = with_intercept(settings)
        if self.path is not None:
            settings = with_path(settings, self.path, given=self.settings)
        check_precision(settings)
        return settings

    @property
    def trains(self) -> bool:
        """Whether the run trains a model; otherwise it gives scores by one."""
        return self.algorithm != "scoring"

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
