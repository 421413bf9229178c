"""Frozen dataclasses as JSON, for the store, the files of results and the events on standard output.

JSON lacks numbers that are not finite. They are written as their names, `inf`, `-inf` and `nan`, and read back as
numbers. Keys that the dataclass does not know are ignored, and a field with a default may be missing, so that records
of older versions stay readable.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fenchel_common.errors import StateDamaged

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


def to_mapping(record: "DataclassInstance") -> dict[str, Any]:
    """The fields of the record in their order, with values that JSON can express."""
    return {name: jsonable(value) for name, value in asdict(record).items()}


def to_json(record: "DataclassInstance") -> str:
    """The record as one line of JSON."""
    return json.dumps(to_mapping(record), allow_nan=False)


def from_mapping(kind: type[T], mapping: Mapping[str, Any]) -> T:
    """Reads back a mapping that `to_mapping` made; raises `StateDamaged` for any other."""
    try:
        record: T = _reader(kind).validate_python(mapping)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise _damaged(f"{field}: {first['msg']}" if field else first["msg"]) from None
    return record


def from_json(kind: type[T], text: str) -> T:
    """Reads back a text that `to_json` wrote; raises `StateDamaged` for any other."""
    try:
        mapping = json.loads(text)
    except ValueError:
        raise _damaged("it is not JSON") from None
    return from_mapping(kind, mapping)


def read_mapping(text: str) -> dict[str, Any]:
    """The mapping that a text of JSON has, not checked further; raises `StateDamaged` for a text without one."""
    try:
        mapping = json.loads(text)
    except ValueError:
        raise _damaged("it is not JSON") from None
    if not isinstance(mapping, dict):
        raise _damaged("it is not a mapping")
    return mapping


def number(value: object) -> float | None:
    """A number as `jsonable` wrote it, one that is not finite included; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def jsonable(value: object) -> object:
    """The value with every number that is not finite replaced by its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: jsonable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(inner) for inner in value]
    return value


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _damaged(fault: str) -> StateDamaged:
    return StateDamaged(
        f"a record is not what this Fenchel writes ({fault}); it was altered, or a newer Fenchel wrote it: use the"
        " Fenchel that wrote it, or a copy of the state from before"
    )
