"""The parts of a description: facts, charts, tables, prose. A document is a list of sections, and a section of items.

Numbers stay numbers: `Form` says how a number is written. Each chart can be shown as a table, because its series are
columns over the same positions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Literal

FORMAT = 1
"""The version of the JSON of a document."""

Value = float | int | str | None


class Form(StrEnum):
    """How a value is written, and so its unit."""

    COUNT = "count"
    SECONDS = "seconds"
    BYTES = "bytes"
    FIGURE = "figure"
    SMALL = "small"
    SHARE = "share"
    MIB = "mib"
    TIME = "time"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with its name; `note` says what it is compared with, or what it means."""

    name: str
    value: Value
    form: Form = Form.TEXT
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts side by side; the `leading` ones of a document are shown large."""

    key: str
    facts: tuple[Fact, ...]
    leading: bool = False
    type: Literal["facts"] = "facts"


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column, and how its values are written."""

    name: str
    form: Form = Form.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under headings; a `folded` one is shown when its reader asks for it."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""
    folded: bool = False
    type: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class Axis:
    """The name of an axis, with the unit of its values in it, and how they are written."""

    name: str
    form: Form
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or a part of each bar; None where there is no value. `at` has positions if the chart has none."""

    name: str
    values: tuple[Value, ...]
    at: tuple[Value, ...] | None = None


ChartKind = Literal["lines", "stack", "bars", "map", "ranges"]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of series over the positions `at`, and where they say less than needed the `table` behind it.

    `lines` has a line for each series, `stack` bars of series on top of each other, `bars` a lying bar of its only
    series for each name. `map` has a row for each series and a cell for each position, with the values of `Presence`.
    `ranges` has the five series least, 5 %, median, 95 % and most, over names. `goal` is a value to reach. `slots` has
    for each series the number of its colour.
    """

    key: str
    title: str
    kind: ChartKind
    x: Axis
    y: Axis
    at: tuple[Value, ...]
    series: tuple[Series, ...]
    caption: str = ""
    goal: float | None = None
    slots: tuple[int, ...] = ()
    notes: Mapping[str, str] | None = None
    table: Table | None = None
    type: Literal["chart"] = "chart"


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences; the `leading` ones are shown large."""

    key: str
    paragraphs: tuple[str, ...]
    leading: bool = False
    type: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied as it is."""

    key: str
    title: str
    text: str
    type: Literal["code"] = "code"


@dataclass(frozen=True, slots=True)
class Member:
    """A party as its tile shows it; `state` is here, working, absent or unknown."""

    name: str
    state: Literal["here", "working", "absent", "unknown"]
    doing: str
    since: float | None
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Members:
    """The parties of a federation."""

    key: str
    title: str
    members: tuple[Member, ...]
    type: Literal["members"] = "members"


@dataclass(frozen=True, slots=True)
class Cell:
    """The part of the table of all that the `holders` have together: samples of one cohort, features of another."""

    samples: int
    first_sample: int
    features: int
    first_feature: int
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holdings:
    """The table of the whole federation as a picture: who holds which samples and features."""

    key: str
    title: str
    samples: int
    features: int
    cells: tuple[Cell, ...]
    caption: str
    table: Table
    type: Literal["holdings"] = "holdings"


Item = Facts | Table | Chart | Prose | Code | Members | Holdings


@dataclass(frozen=True, slots=True)
class Section:
    """Items under a heading."""

    key: str
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A description of a run, of several runs, or of a party. `live` says whether it will change."""

    kind: Literal["run", "comparison", "party"]
    name: str
    title: str
    subtitle: str
    status: str
    reason: str
    live: bool
    sections: tuple[Section, ...]
    warning: str = ""
    format: int = FORMAT


def plain(value: object) -> object:
    """The document as JSON knows it; a number that is not finite is its name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value


def with_items(key: str, title: str, *items: Item | None) -> Section | None:
    """A section of the items that are there; None if none is, so that nothing is shown without content."""
    found = tuple(item for item in items if item is not None)
    return Section(key, title, found) if found else None
