"""The checks of preflight, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Status(Enum):
    """The outcome of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, its outcome, a sentence about it, and what to do about a problem."""

    name: str
    status: Status
    detail: str
    cure: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Values that a person may want to compare, by name."""
