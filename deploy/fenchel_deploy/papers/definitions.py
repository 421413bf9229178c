"""Experiments as files: what is measured, on which data, how it is split, and what the paper printed.

Each file of the folder `files` is an experiment. Its section [quick] replaces values of the file for a run that ends
in minutes: a key of the section has the place of the same key of the file, sections are merged, and `settings` lists
the labels of the settings to keep.
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator

from fenchel_common.errors import InvalidConfig, InvalidInput
from fenchel_common.runsections import Section

PositiveInt = Annotated[int, Field(ge=1)]
Number = int | float
Op = Literal["less than", "more than", "at most", "at least"]

_FILES: Final = files("fenchel_deploy.papers") / "files"
_SUFFIX: Final = ".toml"


class ProblemPlan(Section):
    """The data and the problem that is solved.

    Attributes
    ----------
    stands_in
        The data set that is used where no folder has `dataset`.
    split
        How a table is cut into shards: `quadrants` of an image, the `nonzeros` of each sample, or whole rows as
        `rowproblems` says.
    bias
        The value of a further column in all rows; 0 for none.
    validation
        The share of the samples that never train.
    rows
        At most so many samples are used, drawn at random.
    positive
        Of ten digits the one that stands against the others.
    classes
        More than two: the labels are classes from 0.
    centred
        Whether columns are centred and rows get a mean squared length of 1.
    """

    dataset: str
    stands_in: str
    loss: str
    lambda_: float = Field(alias="lambda", ge=0.0)
    split: Literal["quadrants", "nonzeros", "even", "stratified", "dirichlet", "made"]
    bias: float = 0.0
    validation: float = Field(ge=0.0, lt=1.0)
    rows: PositiveInt | None = None
    positive: Annotated[int, Field(ge=0, le=9)] = 3
    classes: PositiveInt = 2
    centred: bool = False


class SettingPlan(Section):
    """One setting of a table or figure: how many parties there are, and which fraction takes part in a round.

    Attributes
    ----------
    parties
        A number, or sample groups and feature groups.
    fractions
        The fraction of the parties in a round.
    tuned
        For each algorithm the hyper-parameters that the paper lists for this setting.
    printed
        What the paper printed for this setting, by name.
    """

    parties: PositiveInt | Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]
    fraction: float = Field(gt=0.0, le=1.0)
    tuned: dict[str, dict[str, Number]] = Field(default_factory=dict)
    printed: dict[str, Number] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """As the paper names the setting: `5, 0.1` or `3, 3, 0.1`."""
        parts = [self.parties] if isinstance(self.parties, int) else list(self.parties)
        return ", ".join([*map(str, parts), f"{self.fraction:g}"])

    @property
    def party_count(self) -> int:
        return self.parties if isinstance(self.parties, int) else self.parties[0] * self.parties[1]


class Operand(Section):
    """Values of rows: those of a column in the rows whose cells are as `where` says, times a factor."""

    column: str
    where: dict[str, str] = Field(default_factory=dict)
    times: Number = 1


class ClaimPlan(Section):
    """A sentence of the paper, and the comparison of measured values that decides whether it holds.

    `each` has the columns whose values pair the rows of both sides. `untestable` says why the sentence cannot be tested
    here; then there is no comparison. A sentence that is `whole` is about the printed hyper-parameters, which suit the
    whole data set of the paper alone.
    """

    says: str
    each: tuple[str, ...] = Field(default=("setting",), strict=False)
    left: Operand | None = None
    op: Op | None = Field(default=None, alias="is")
    right: Operand | Number | None = None
    untestable: str = ""
    whole: bool = False


class TakesPlan(Section):
    """How long an experiment takes, and how this is known; None if nobody has measured it."""

    quick_s: PositiveInt
    full_s: PositiveInt | None = None
    known: str


class Experiment(Section):
    """An experiment, as its file and the choice of the quick form make it."""

    title: str
    paper: str
    shows: Annotated[tuple[str, ...], Field(strict=False)]
    kind: Literal["costs", "curves", "certified", "optima", "selection", "rows"]
    about: str
    problem: ProblemPlan
    settings: Annotated[tuple[SettingPlan, ...], Field(strict=False)] = ()
    algorithms: Annotated[tuple[str, ...], Field(strict=False)] = ()
    seeds: Annotated[tuple[int, ...], Field(strict=False)] = (0,)
    rounds: PositiveInt = 1
    options: dict[str, Any] = Field(default_factory=dict)
    claims: Annotated[tuple[ClaimPlan, ...], Field(strict=False)] = ()
    takes: TakesPlan

    @field_validator("settings")
    @classmethod
    def _labels_differ(cls, settings: tuple[SettingPlan, ...]) -> tuple[SettingPlan, ...]:
        labels = [setting.label for setting in settings]
        if len(set(labels)) < len(labels):
            raise ValueError("two settings have the same parties and the same fraction")
        return settings

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, quick: bool, source: str) -> Self:
        """The experiment of a file's values; `InvalidConfig` names the first field at fault."""
        given = {name: value for name, value in values.items() if name != "quick"}
        if quick:
            given = _with_quick(given, dict(values.get("quick", {})), source)
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidConfig(f"{source}: {place}: {first['msg']}") from None


def experiment_names() -> list[str]:
    """The names of all experiments, sorted."""
    return sorted(entry.name.removesuffix(_SUFFIX) for entry in _FILES.iterdir() if entry.name.endswith(_SUFFIX))


def load_experiment(name: str, *, quick: bool = False) -> Experiment:
    """The named experiment; `InvalidInput` if there is none."""
    if name not in experiment_names():
        raise InvalidInput(f"{name!r} is no experiment; `fenchel experiment list` names them: {experiment_names()}")
    text = (_FILES / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    return Experiment.from_mapping(tomllib.loads(text), quick=quick, source=f"{name}{_SUFFIX}")


def _with_quick(values: dict[str, Any], quick: dict[str, Any], source: str) -> dict[str, Any]:
    labels = quick.pop("settings", None)
    merged = dict(values)
    for name, value in quick.items():
        merged[name] = {**merged[name], **value} if isinstance(value, dict) and name in merged else value
    if labels is not None:
        known = {SettingPlan.model_validate(one).label: one for one in values["settings"]}
        if unknown := [label for label in labels if label not in known]:
            raise InvalidConfig(f"{source}: quick.settings: {unknown[0]!r} is no setting; use {list(known)}")
        merged["settings"] = [known[label] for label in labels]
    return merged
