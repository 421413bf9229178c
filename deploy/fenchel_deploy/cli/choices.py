"""Values of options that several commands take."""

import tomllib
from collections.abc import Sequence
from typing import Any

from fenchel_common.algorithms import SETTINGS
from fenchel_common.algorithms.settings import Profile
from fenchel_common.data.heterogeneous import Split
from fenchel_common.defaults import ROUNDS, UNCERTIFIED_ROUNDS
from fenchel_common.errors import InvalidInput


def words(text: str) -> list[str]:
    """The parts of an option that is a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def usual_grid(profile: Profile, split: Split) -> str:
    """The grid if none is given: parties with some rows and some columns if the algorithm allows, else whole rows."""
    return "2x2" if "hybrid" in profile.partitions and not split.whole_rows else "4x1"


def usual_rounds(profile: Profile) -> int:
    """The most rounds if none are given; most runs with a certificate end long before."""
    return ROUNDS if profile.certified else UNCERTIFIED_ROUNDS


def parse_grid(text: str) -> tuple[int, int]:
    """Reads KxQ: row groups times column groups."""
    rows, _, columns = text.lower().partition("x")
    if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise InvalidInput(f"--grid: {text!r} is not of the form KxQ, such as 2x2")
    return int(rows), int(columns)


def parse_samples(text: str) -> str | int | float:
    """Reads --h: auto, a number of samples, or a fraction of them."""
    try:
        return int(text) if text.isdecimal() else float(text) if text != "auto" else text
    except ValueError:
        raise InvalidInput(f"--h: {text!r} is neither auto, nor a number of samples, nor a fraction") from None


def parse_parameters(option: str, texts: Sequence[str]) -> dict[str, object]:
    """Reads the NAME=VALUE of an option, with each value as in a TOML file; a word needs no quotes."""
    parameters: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InvalidInput(f"{option}: {text!r} is not of the form NAME=VALUE")
        try:
            parameters[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parameters[name] = value
    return parameters


def parse_choice(option: str, value: str, *known: str) -> Any:
    """The value; raises `InvalidInput` if it is not one of the known ones."""
    if value not in known:
        raise InvalidInput(f"{option}: {value!r} is not one of: {', '.join(known)}")
    return value


def parse_local(value: str) -> str:
    """The value of --local; raises `InvalidInput` if HyFDCA has no such local steps."""
    local: str = parse_choice("--local", value, *SETTINGS["hyfdca"].by_local)
    return local


def parse_classes(text: str | None) -> tuple[str, ...]:
    """The names of classes, separated by commas; none without the option."""
    return () if text is None else tuple(name.strip() for name in text.split(","))
