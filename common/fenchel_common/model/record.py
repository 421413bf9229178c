"""What a model is made of: weights, and a record of what they mean, how values are prepared, and where it is from.

The score of a row is the sum of weight times prepared value over its features, plus the intercept. The prepared value
of a raw value x is (x − shift) / scale; a missing cell has the raw value `missing`. In a run with rows of length 1 all
prepared values of a row are divided by the length of the whole row, over the features of all parties.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_common import jsonrecord
from fenchel_common.errors import InvalidInput, StateDamaged
from fenchel_common.scoresums import ScoreFigures

Array = NDArray[np.float64]
Kind = Literal["number", "category", "other", "missing"]
Task = Literal["binary", "classes", "regression"]

FORMAT: Final = "fenchel-model"
VERSION: Final = 1
LAMBDA: Final = "lambda"
MAX_CLASSES: Final = 10_000
BOUNDS: Final = (
    "gap = primal - dual bounds how far the objective of the whole model, over all samples and features of the run as "
    "it prepared them, is above the least possible"
)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature, of the column `column` of a table.

    `kind` says what its raw value is: "number" the cell; "category" 1 where the cell is `value`, else 0; "other" 1
    where the cell is none of the values with a feature of their own, else 0; "missing" 1 where the cell is missing,
    else 0. `missing` is the raw value that counts where the cell is missing; None where missing cells are refused.
    """

    name: str
    kind: Kind
    column: str
    value: str | None = None
    shift: float = 0.0
    scale: float = 1.0
    missing: float | None = None

    @property
    def prepared_missing(self) -> float | None:
        """The prepared value of a missing cell; None where it is refused."""
        return None if self.missing is None else (self.missing - self.shift) / self.scale

    def to_mapping(self) -> dict[str, str | float | None]:
        """An entry of `features` in model.json; `value` is for categories alone."""
        value = {} if self.value is None else {"value": self.value}
        figures = {"shift": self.shift, "scale": self.scale, "missing": self.missing}
        return {"name": self.name, "kind": self.kind, "column": self.column, **value, **figures}


@dataclass(frozen=True, slots=True)
class Standardised:
    """How numbers to predict were standardised: the prediction is shift + scale · score."""

    shift: float
    scale: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """The objective and dual value of the last certified round, and their difference; None if there was none."""

    primal: float | None
    dual: float | None
    gap: float | None
    bounds: str = BOUNDS


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a model is from.

    Attributes
    ----------
    configuration
        The whole configuration of the run, defaults included; `configuration_sha256` is the digest that the parties
        compared.
    cipher, key_bits, key_fingerprint
        How vectors were encrypted; None for what a run without encryption, or with masks, does not have.
    rounds
        The number of the last round.
    samples, own_samples
        The samples that the run used, of all parties and of this one.
    """

    configuration: dict[str, Any]
    configuration_sha256: str
    privacy: str
    cipher: str | None
    key_bits: int | None
    key_fingerprint: str | None
    rounds: int
    samples: int
    own_samples: int
    protocol_version: int
    software: str


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """All of model.json but its format and version.

    Attributes
    ----------
    run, name
        The id and the name of the run.
    party, parties
        Whose part of the model this is, and all parties of the run.
    task
        "binary": a score from zero upwards predicts the positive class; "classes": a score for each class, of which
        the largest is the prediction; "regression": the score is the prediction.
    classes
        The names of the classes, for two of them the negative one first; none in regression, and where a party without
        labels does not know the names of two classes.
    standardised, target
        Whether numbers to predict were standardised, and how; None at a party without labels.
    intercept
        "held" if the weights have an intercept, "elsewhere" if parties with labels have it, "none" if there is none.
    unit_rows
        Whether whole rows are divided by their lengths.
    features, all_features
        The features of this part, in the order of the table, and the number of those of the whole model.
    figures, own_figures
        How well the whole model predicts the labels of all samples of the run, and of the samples of this party; None
        where the run did not measure it, and at a party without labels.
    """

    run: str
    name: str
    party: str
    parties: tuple[str, ...]
    task: Task
    loss: str
    lambda_: float
    classes: tuple[str, ...]
    standardised: bool
    target: Standardised | None
    intercept: Literal["held", "elsewhere", "none"]
    unit_rows: bool
    all_features: int
    certificate: Certificate
    provenance: Provenance
    features: tuple[Feature, ...] = field(repr=False)
    figures: ScoreFigures | None = None
    own_figures: ScoreFigures | None = None

    def to_mapping(self) -> dict[str, Any]:
        """The content of model.json."""
        # Features one by one: a model can have a million of them, which the general way would copy slowly.
        values = jsonrecord.to_mapping(replace(self, features=()))
        named = {LAMBDA if name == "lambda_" else name: value for name, value in values.items()}
        return {"format": FORMAT, "version": VERSION, **named, "features": [one.to_mapping() for one in self.features]}

    def check(self) -> None:
        """Raises `InvalidInput` for a record that no run has."""
        fewest, most = {"binary": (0, 2), "classes": (2, MAX_CLASSES), "regression": (0, 0)}[self.task]
        if not fewest <= len(self.classes) <= most or len(self.classes) == 1:
            raise InvalidInput(f"classes: {len(self.classes)} names do not fit the task {self.task}")
        names = [one.name for one in self.features]
        if len(set(names)) != len(names):
            raise InvalidInput("features: a name occurs more than once")
        try:
            "".join((*names, *self.classes, *(one.column for one in self.features))).encode()
        except UnicodeEncodeError:
            raise InvalidInput("features, classes: have characters that Unicode does not have") from None
        figures = [(one.shift, one.scale, 0.0 if one.missing is None else one.missing) for one in self.features]
        if self.target is not None:
            figures.append((self.target.shift, self.target.scale, 0.0))
        if any(not (scale > 0.0 and all(map(math.isfinite, row))) for row in figures for scale in row[1:2]):
            raise InvalidInput("features, target: shifts and scales must be finite, and scales positive")

    @classmethod
    def from_mapping(cls, values: object, *, source: str) -> Self:
        """Reads the content of model.json; `InvalidInput` for another format or version."""
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise InvalidInput(f'{source}: is not the model.json of a Fenchel model: it has no format = "{FORMAT}"')
        version = values.get("version")
        if version != VERSION:
            newer = isinstance(version, int) and version > VERSION
            raise InvalidInput(
                f"{source}: has version {version!r} of the format, and this Fenchel reads version {VERSION}; "
                + ("use a newer Fenchel" if newer else "use the Fenchel that wrote it")
            )
        named = {"lambda_" if name == LAMBDA else name: value for name, value in values.items()}
        try:
            return jsonrecord.from_mapping(cls, named)
        except StateDamaged as error:
            raise InvalidInput(f"{source}: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The part of a model that one party has, or several parts joined.

    Attributes
    ----------
    weights
        (m,), or (m, classes) for several classes: the weights of prepared values, in the order of `record.features`.
    intercept
        () or (classes,); None if this part has none.
    """

    record: ModelRecord
    weights: Array = field(repr=False)
    intercept: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.record.check()
        names = {one.name for one in self.record.features}
        several = (len(self.record.classes),) if self.record.task == "classes" else ()
        if self.weights.shape != (len(names), *several):
            raise InvalidInput(f"weights: have the shape {self.weights.shape}, which does not fit the features")
        if (self.intercept is not None) != (self.record.intercept == "held"):
            raise InvalidInput("intercept: is there, or missing, against the record")
        if self.intercept is not None and self.intercept.shape != several:
            raise InvalidInput(f"intercept: has the shape {self.intercept.shape}, which does not fit the classes")
        for array in (self.weights, self.intercept):
            if array is not None and not np.isfinite(array).all():
                raise InvalidInput("weights: must be finite")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in the order of the weights."""
        return tuple(one.name for one in self.record.features)
