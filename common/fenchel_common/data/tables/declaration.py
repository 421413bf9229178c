"""shard.toml: what a party's table means. It lies beside the data."""

import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fenchel_common.data.canonical import RULE, canonical
from fenchel_common.errors import InvalidInput

DECLARATION_FILE: Final = "shard.toml"
MAX_DECLARATION_BYTES: Final = 1 << 26
MISSING_VALUES: Final = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "?", "-")
"""The texts of a CSV cell that mean that there is no value."""

Scalar = str | int | float | bool
Name = Annotated[str, Field(min_length=1)]
MissingPolicy = Literal["refuse", "drop", "fill", "impute"]

_INDENT: Final = "#              "
_RULE_LINES: Final = "\n".join(textwrap.wrap(RULE, 100, initial_indent=_INDENT, subsequent_indent=_INDENT))
HEADER: Final = f"""\
# What Fenchel reads of this table. `fenchel data inspect` shows the effect; docs/tables.md explains every key.
#   id         the column of the sample ids, or a list of columns. Ids are compared as
{_RULE_LINES}
#   leave_out  columns that are not used.
#   missing    for cells without a value: "refuse" the table, "drop" the row, "fill" in the number `fill`, or let
#              the run "impute" the mean over all parties.
#   features   type "number", or "category", whose `values` can be left out for a run with [features]; each may
#              have its own `missing` and `fill`, and `indicator = true` for a further feature that is 1 where the
#              cell was missing.

"""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class CsvOptions(_Section):
    """How the text of a CSV file is to be read; a delimiter that is not given is found from the header."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: str = "utf-8"
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    missing_values: list[str] = Field(default_factory=lambda: list(MISSING_VALUES))


class LibsvmOptions(_Section):
    """`ids`: the text after "#" on each line, or the number of the line; `features`: how many columns there are."""

    ids: Literal["comment", "rows"] = "comment"
    features: Annotated[int, Field(gt=0, le=1 << 24)] | None = None


class LabelDeclaration(_Section):
    """The labels: two classes, several classes by their names, or numbers; `weight` is the column of sample weights.

    `column` is left out for formats that know labels by themselves (LIBSVM and NPZ).
    """

    column: Name | None = None
    type: Literal["classes", "names", "number"] = "classes"
    positive: Scalar | None = None
    negative: Scalar | None = None
    missing: Literal["refuse", "drop"] = "refuse"
    weight: Name | None = None

    def classes(self) -> dict[str, float]:
        """The labels −1 and +1 by the canonical text of their cells."""
        assert self.positive is not None
        assert self.negative is not None
        return {canonical(self.negative): -1.0, canonical(self.positive): 1.0}

    def names(self) -> tuple[str, str] | None:
        """The names of the labels −1 and +1, if the labels are those of two classes."""
        if self.type != "classes":
            return None
        negative, positive = self.classes()
        return negative, positive


class FeatureDeclaration(_Section):
    """One column that is used: as a number, or as one feature of 0 and 1 for each of its values.

    A category without `values` has those that are found in the table.
    """

    type: Literal["number", "category"] = "number"
    values: list[Scalar] = Field(default_factory=list)
    missing: MissingPolicy | None = None
    fill: float | None = None
    indicator: bool = False


class Declaration(_Section):
    """All of shard.toml.

    Without `features`, every column that is neither an id nor the label nor left out is a feature of type number.
    """

    file: Name
    format: Name | None = None
    id: Name | list[Name] | None = None
    leave_out: list[Name] = Field(default_factory=list)
    missing: MissingPolicy = "refuse"
    fill: float = 0.0
    sparse: bool = False
    csv: CsvOptions = CsvOptions()
    libsvm: LibsvmOptions = LibsvmOptions()
    label: LabelDeclaration | None = None
    features: dict[Name, FeatureDeclaration] | None = None

    @property
    def id_columns(self) -> list[str]:
        if self.id is None:
            raise InvalidInput(
                f'{self.file}: which column has the ids? Write id = "COLUMN" into {DECLARATION_FILE}, or run `fenchel '
                "data init FILE --id COLUMN`"
            )
        return [self.id] if isinstance(self.id, str) else list(self.id)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], *, source: str) -> Self:
        """Checks a declaration; `InvalidInput` names the first key at fault."""
        try:
            declaration = cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(str(part) for part in first["loc"])
            if first["type"] == "extra_forbidden":
                raise InvalidInput(f"{source}: unknown key {key}; docs/tables.md lists the keys") from None
            raise InvalidInput(f"{source}: {key}: {first['msg'].replace('Input should', 'must')}") from None
        declaration._check(source)
        return declaration

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Reads and checks shard.toml."""
        try:
            if path.stat().st_size > MAX_DECLARATION_BYTES:
                raise InvalidInput(f"{path}: has more than {MAX_DECLARATION_BYTES} bytes, so it is no declaration")
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{path}: is not valid TOML: {error}") from None
        return cls.from_mapping(values, source=str(path))

    def to_toml(self) -> str:
        """The text of shard.toml, below an explanation of the keys."""
        whole = self.model_dump(exclude_none=True)
        values: dict[str, Any] = {
            key: whole[key] for key in ("file", "format", "id", "leave_out", "missing") if key in whole
        }
        values |= self.model_dump(exclude_defaults=True, exclude_none=True)
        for name, feature in (self.features or {}).items():
            values["features"][name] = {"type": feature.type} | values["features"][name]
        return HEADER + tomli_w.dumps(values)

    def _check(self, source: str) -> None:
        if isinstance(self.id, list) and (not self.id or len(set(self.id)) != len(self.id)):
            raise InvalidInput(f"{source}: id: must name one or more different columns")
        ids = [] if self.id is None else self.id_columns
        uses = [*ids, *self.leave_out, *(self.features or {})]
        if self.label is not None:
            self._check_label(self.label, source)
            uses += [name for name in (self.label.column, self.label.weight) if name is not None]
        twice = [name for name in dict.fromkeys(uses) if uses.count(name) > 1]
        if twice:
            raise InvalidInput(
                f"{source}: column {twice[0]!r} has two uses; name it under one of id, label, features, leave_out"
            )
        if self.csv.decimal == self.csv.thousands:
            raise InvalidInput(f"{source}: csv: decimal and thousands cannot be the same character")
        for name, feature in (self.features or {}).items():
            if feature.type != "category" and feature.values:
                raise InvalidInput(f'{source}: features.{name}: use type = "category" for a column with values')
            texts = _canonical_values(feature.values, f"{source}: features.{name}.values")
            if len(set(texts)) != len(texts):
                raise InvalidInput(f"{source}: features.{name}.values: two of them are the same value")

    def _check_label(self, label: LabelDeclaration, source: str) -> None:
        given = [value for value in (label.positive, label.negative) if value is not None]
        if label.type != "classes":
            if given:
                raise InvalidInput(f'{source}: label: type = "{label.type}" has no positive and no negative value')
            return
        if len(given) != 2:
            raise InvalidInput(
                f'{source}: label: which value is positive? Give both, such as positive = "yes" and negative = "no"'
            )
        if len(set(_canonical_values(given, f"{source}: label"))) != 2:
            raise InvalidInput(f"{source}: label: positive and negative are the same value")


def _canonical_values(values: list[Scalar], where: str) -> list[str]:
    try:
        return [canonical(value) for value in values]
    except ValueError as error:
        raise InvalidInput(f"{where}: a value {error}; write it as text") from None
