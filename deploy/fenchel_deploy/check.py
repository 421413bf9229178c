"""What a check of preflight found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Status(Enum):
    """How a check came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how it came out, and what to do about it."""

    name: str
    status: Status
    detail: str
    cure: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What a person may want to compare, by name."""
