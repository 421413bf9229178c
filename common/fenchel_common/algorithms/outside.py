"""Averaging algorithms that other packages bring, found by the entry point group `fenchel.algorithms`.

An entry point's name is the algorithm's name in a run's file; it leads to an `OutsideAlgorithm`. A package runs with
all rights of the process that imports it, at a party with the run's key: only packages that are installed beside
Fenchel are found, and a package is imported once an algorithm of its is asked for, or all are listed.
"""

import importlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

from fenchel_common.algorithms.averaging.settings import AveragingSettings
from fenchel_common.errors import InvalidConfig

GROUP: Final = "fenchel.algorithms"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OutsideAlgorithm:
    """An averaging algorithm of another package.

    Attributes
    ----------
    settings
        A subclass of `AveragingSettings` with a profile.
    server, client
        Where its halves are, as "package.module:Class": subclasses of `AveragingServer` and `AveragingClient`. They
        are names because a server process must not import what a party works with.
    """

    settings: type[AveragingSettings]
    server: str
    client: str


class WithOutside(Mapping[str, T], Generic[T]):
    """A table of algorithms by name: the built-in ones, and those of other packages.

    Iteration leaves out algorithms of other packages that cannot be used, and warns of them. Asked for by name, such
    an algorithm raises `InvalidConfig` with the reason.
    """

    def __init__(self, built_in: Mapping[str, T], made: Callable[[OutsideAlgorithm], T]) -> None:
        self._built_in = built_in
        self._made = made

    def __getitem__(self, name: str) -> T:
        return self._built_in[name] if name in self._built_in else self._made(outside_algorithm(name))

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from (name for name in usable() if name not in self._built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def package_of(name: str) -> str | None:
    """The package that brings an algorithm, with its version, as "name 1.0"; None for a built-in algorithm."""
    points = _found(name)
    distribution = points[0].dist if points else None
    return None if distribution is None else f"{distribution.name} {distribution.version}"


@cache
def outside_algorithm(name: str) -> OutsideAlgorithm:
    """The algorithm that a package brings under this name.

    Raises
    ------
    KeyError
        No package brings one.
    InvalidConfig
        One does, and it cannot be used; the message names the package and the reason.
    """
    points = _found(name)
    if not points:
        raise KeyError(name)
    if len(points) > 1:
        packages = " and ".join(sorted(point.dist.name for point in points if point.dist is not None))
        raise InvalidConfig(f"algorithm {name!r}: {packages} both bring it; remove one of them")
    brought = f"algorithm {name!r}, which the package {package_of(name)} brings, cannot be used"
    try:
        found = _imported(points[0].value)
    except InvalidConfig as error:
        raise InvalidConfig(f"{brought}: {error}") from error
    if not isinstance(found, OutsideAlgorithm):
        raise InvalidConfig(f"{brought}: {points[0].value} is not an OutsideAlgorithm")
    if not (isinstance(found.settings, type) and issubclass(found.settings, AveragingSettings)):
        raise InvalidConfig(f"{brought}: its settings are not a subclass of AveragingSettings")
    if not hasattr(found.settings, "profile"):
        raise InvalidConfig(f"{brought}: its settings have no profile")
    return found


def outside_half(place: str, base: type) -> Any:
    """The class at "package.module:Class", which must be a subclass of `base`; `InvalidConfig` otherwise."""
    found = _imported(place)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InvalidConfig(f"algorithm: {place} is not a subclass of {base.__name__}")
    return found


@cache
def usable() -> tuple[str, ...]:
    """The names of the algorithms of other packages that can be used; a warning for each of the others, once."""
    found = Counter(point.name for point in entry_points(group=GROUP))
    return tuple(name for name in sorted(found) if _can_be_used(name))


def _can_be_used(name: str) -> bool:
    if not _NAME.fullmatch(name):
        log.warning("an installed package brings an algorithm whose name is not like my_algorithm; it is left out")
        return False
    try:
        outside_algorithm(name)
    except InvalidConfig as error:
        log.warning("%s", error)
        return False
    return True


def _found(name: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP, name=name)) if _NAME.fullmatch(name) else ()


def _imported(place: str) -> object:
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # A package from outside can fail in any way.
        raise InvalidConfig(f"importing {place} failed: {type(error).__name__}: {error}") from error
