"""The settings that every algorithm has, and the profile with which an algorithm describes itself.

An algorithm's settings are a subclass of `AlgorithmSettings` with a `profile` and a `family`; each of its fields has a
description, which `fenchel algorithms` shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fenchel_common import defaults
from fenchel_common.algorithms.family import Family
from fenchel_common.errors import InvalidConfig
from fenchel_common.labelrules import NO_RULES, LabelRules
from fenchel_common.losses import LOSSES, Array, Fit, Loss
from fenchel_common.privacy import Privacy

PositiveFloat = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
PrivacyWord = Annotated[Privacy, Field(strict=False)]
"""A privacy level, given as its word; a strict field would take members of the enumeration only."""

Partition = Literal["horizontal", "vertical", "hybrid"]
"""How the table is split between the parties: whole rows, whole columns, or some rows and some columns each."""

Precision = Literal["auto", 32, 48, 64]
"""The width in bits of the slots of vectors by sample; `auto` is the narrowest that the run's gap allows."""

ANY_PARTITION: tuple[Partition, ...] = ("horizontal", "vertical", "hybrid")
RUN_LEVEL = frozenset({"intercept", "path", "precision", "privacy", "seed", "stop"})
"""The fields of an algorithm's settings that the run's configuration sets."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts with which a person chooses an algorithm.

    Attributes
    ----------
    encrypted
        Kinds of values that reach the server as ciphertext, unless the run is in clear.
    sealed
        Kinds of values that reach the server as ciphertext in a sealed run, and in clear in any other.
    visible
        Kinds of values that the server sees at every privacy level, and when.
    certified
        Whether a run proves its distance to the optimum by a duality gap.
    """

    summary: str
    partitions: tuple[Partition, ...]
    losses: tuple[str, ...]
    encrypted: tuple[str, ...]
    sealed: tuple[str, ...] = ()
    visible: Mapping[str, str] = field(default_factory=dict)
    privacy: tuple[Privacy, ...] = (Privacy.SEALED, Privacy.PAPER, Privacy.PLAIN)
    certified: bool = False


@dataclass(frozen=True, slots=True)
class Participation:
    """Which clients take part in a round: all, a random fraction of them, or one of C sets in turn."""

    kind: Literal["all", "fraction", "cyclic"]
    fraction: float = 1.0
    cycle: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        kind, _, number = text.partition(":")
        try:
            if kind == "all" and not number:
                return cls("all")
            if kind == "fraction" and 0.0 < float(number) <= 1.0:
                return cls("fraction", fraction=float(number))
            if kind == "cyclic" and int(number) >= 2:
                return cls("cyclic", cycle=int(number))
        except ValueError:
            pass
        raise ValueError("use all, fraction:P with P above 0 and at most 1, or cyclic:C with C at least 2")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, strict=True, defer_build=True)


class StopRules(_Section):
    """The rules that end a run; the first rule that is met ends it. The driver checks `seconds`."""

    gap: PositiveFloat | None = defaults.GAP
    rounds: int = Field(default=defaults.ROUNDS, ge=1, le=10_000_000)
    seconds: PositiveFloat | None = None


class AlgorithmSettings(_Section):
    """The checked settings of an algorithm in one run.

    A subclass is one algorithm. It sets `profile` and `family`, whose functions must accept its settings, and adds
    fields with a default and a description each. Settings never change after `parse`.
    """

    profile: ClassVar[Profile]
    family: ClassVar[Family[Any]]

    loss: str = Field(default=defaults.LOSS, description="The loss of a sample.")
    lambda_: float = Field(
        default=defaults.LAMBDA, alias="lambda", ge=1e-12, le=1e12, description="Weight of λ/2·‖w‖²."
    )
    participation: str = Field(
        default=defaults.PARTICIPATION,
        description="Who takes part in a round: all, fraction:P (random) or cyclic:C (sets in turn).",
    )
    privacy: PrivacyWord = defaults.PRIVACY
    precision: Precision = defaults.PRECISION
    seed: int = Field(default=defaults.SEED, ge=0, lt=2**63)
    stop: StopRules = StopRules()

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, name: str) -> str:
        if name not in cls.profile.losses:
            raise ValueError(f"choose one of {', '.join(cls.profile.losses)}")
        return name

    @field_validator("participation")
    @classmethod
    def _known_participation(cls, text: str) -> str:
        Participation.parse(text)
        return text

    @property
    def loss_function(self) -> Loss:
        """The loss of a margin; a subclass with other losses too raises `InvalidConfig` for those."""
        return LOSSES[self.loss]

    @property
    def label_rules(self) -> LabelRules:
        """How the run uses labels."""
        return NO_RULES

    def check_labels(self, y: Array, weights: Array | None = None) -> None:
        """Raises `InvalidInput`, which shows no value, for labels or weights of a table that the run cannot use."""
        self.loss_function.check_labels(y)
        self.label_rules.check_weights(weights)

    def fit(self, mean: float) -> Fit:
        """How well a model predicts, from the mean of the loss's `fit_sum` over all samples."""
        return self.loss_function.fit(mean)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The canonical names of the classes that have a model each; empty in a run of one model."""
        return ()

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of slots that vectors by sample can have, ascending."""
        return (64,)

    def slot_bits(self, _parties: int) -> int:
        """The width of the slots of vectors by sample in a federation of so many parties; blocks are sized for it."""
        return 64 if self.precision == "auto" else self.precision

    @property
    def constant(self) -> float:
        """The value of the constant feature whose weight makes the intercept; 0 without an intercept."""
        return 0.0

    @property
    def participation_rule(self) -> Participation:
        return Participation.parse(self.participation)

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Settings from a configuration; `InvalidConfig` names each wrong field, the fault and the cure."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise InvalidConfig("; ".join(_problem(cls, dict(detail)) for detail in error.errors())) from None

    @classmethod
    def parameters(cls) -> dict[str, tuple[object, str]]:
        """The default and the meaning of each parameter of the algorithm, by name."""
        return {
            info.alias or name: (info.default, info.description or "")
            for name, info in cls.model_fields.items()
            if name not in RUN_LEVEL
        }


@dataclass(frozen=True, slots=True)
class AlgorithmEntry:
    """An algorithm as a run's file names it, with the class of its settings.

    Attributes
    ----------
    default
        The class for a file without `local`.
    by_local
        The class for each value of `local`; empty if the algorithm has no such setting.
    of_some
        For a class of settings the class that stands in its place if only some of the parties take part in a round.
    """

    default: type[AlgorithmSettings]
    by_local: Mapping[str, type[AlgorithmSettings]] = field(default_factory=dict)
    of_some: Mapping[type[AlgorithmSettings], type[AlgorithmSettings]] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        return self.default.profile

    def parse(self, values: Mapping[str, object]) -> AlgorithmSettings:
        """Settings from a configuration, as `AlgorithmSettings.parse` gives them.

        Their class follows from `local` and `participation`.
        """
        chosen = self._chosen(values)
        if values.get("participation", defaults.PARTICIPATION) != defaults.PARTICIPATION:
            chosen = self.of_some.get(chosen, chosen)
        return chosen.parse(values)

    def _chosen(self, values: Mapping[str, object]) -> type[AlgorithmSettings]:
        if not self.by_local or "local" not in values:
            return self.default
        for local, chosen in self.by_local.items():
            if values["local"] == local:
                return chosen
        raise InvalidConfig(f"local: choose one of {', '.join(self.by_local)}")

    def parameters(self) -> dict[str, tuple[object, str]]:
        """The default and the meaning of each parameter of the algorithm, for all values of `local`, by name."""
        found: dict[str, tuple[object, str]] = {}
        for settings in (*self.by_local.values(), self.default):
            found |= settings.parameters()
        return found


def _problem(settings: type[AlgorithmSettings], detail: dict[str, object]) -> str:
    path = detail["loc"]
    assert isinstance(path, tuple)
    # A union adds the name of each of its types to the path, after the field.
    depth = 2 if path[:1] == ("stop",) else 1
    name = ".".join(str(part) for part in path[:depth])
    if detail["type"] == "extra_forbidden":
        known = list(StopRules.model_fields) if depth == 2 else [*settings.parameters(), *sorted(RUN_LEVEL)]
        return f"{name}: unknown key; the known ones are {', '.join(known)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    said = f"{message[:1].lower()}{message[1:]}"
    # A fault of several fields together has no path; its message begins with the name of one of them.
    return f"{name}: {said}" if name else said


def is_due(round_id: int, every: int) -> bool:
    """Whether an action that is due in every `every`-th round is due in this one; never if `every` is 0."""
    return every > 0 and round_id % every == 0
