"""Rows that workers hold, in pieces: what `OwnRows` does in one process, with the same results to the last bit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client import rowpieces
from fenchel_client.rowpieces import LocalRows, Others, added
from fenchel_client.workers.holders import Holder
from fenchel_client.workers.questions import Arrays
from fenchel_client.workers.rowholder import CHOSEN, LOCAL

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Told = Mapping[str, Any]
Pending = Callable[[], Arrays]


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one worker: whole pieces, from `start` to `stop`."""

    holder: Holder
    start: int
    stop: int


class SpreadRows:
    """X (n, m) of which each worker has some pieces."""

    def __init__(self, parts: Sequence[Part], width: int) -> None:
        self._parts, self._width = parts, width

    def squared_norms(self) -> Array:
        found = _all(part.holder.ask("norms") for part in self._parts)
        return np.concatenate([each["values"] for each in found])

    def products(self, positions: Positions, weights: Array) -> Array:
        split = self._split(positions)
        asked = [
            part.holder.ask("products", {"at": positions[of] - part.start, "weights": weights})
            for part, of in zip(self._parts, split, strict=True)
        ]
        return _joined(asked, split, len(positions))

    def pull(self, a: Array) -> Array:
        return _added(part.holder.ask("pull", {"a": a[part.start : part.stop]}) for part in self._parts)

    def described(self, live: Positions, others: Others | None, constant: tuple[int, float] | None) -> LocalRows:
        assert constant is None, "runs with an intercept are refused, because they prepare features"
        split = self._split(live)
        asked = []
        for part, of in zip(self._parts, split, strict=True):
            told: dict[str, Any] = {"live": live[of] - part.start}
            if others is not None:
                told |= {"weights": others.weights, "whole": others.whole[:, of], "basis": others.basis}
            asked.append(part.holder.ask("describe", told, slot=LOCAL))
        _all(asked)
        width = self._width + (0 if others is None else int(others.basis.shape[1]))
        holders = [part.holder for part in self._parts]
        return SpreadLocalRows(list(zip(holders, split, strict=True)), (len(live), width), LOCAL)

    def _split(self, positions: Positions) -> list[Positions]:
        return [np.flatnonzero((part.start <= positions) & (positions < part.stop)) for part in self._parts]


class SpreadLocalRows:
    """F of which each worker has the rows at some positions; `name` says whether it is all of F or chosen rows."""

    def __init__(self, parts: Sequence[tuple[Holder, Positions]], shape: tuple[int, int], name: str) -> None:
        self._parts, self._shape, self._name = parts, shape, name

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def factored(self) -> bool:
        return self._shape[1] <= rowpieces.DENSE_WIDTH

    def squared_norms(self) -> Array:
        return self._values("local norms", {})

    def times(self, v: Array) -> Array:
        return self._values("local times", {"v": v})

    def pull(self, a: Array) -> Array:
        return _added(holder.ask("local pull", {"a": a[of], "of": self._name}) for holder, of in self._parts)

    def curvature(self, inside: Positions, weights: Array, start: Array) -> Array:
        asked: list[Pending] = []
        for (holder, _), (among, at) in zip(self._parts, self._inside(inside), strict=True):
            told: dict[str, Any] = {"inside": among, "weights": weights[at], "of": self._name}
            asked.append(holder.ask("curvature", told if asked else told | {"start": start}))
        return _added(asked)

    def chosen(self, inside: Positions) -> "SpreadLocalRows":
        split = self._inside(inside)
        _all(
            holder.ask("choose", {"inside": among}, slot=CHOSEN)
            for (holder, _), (among, _) in zip(self._parts, split, strict=True)
        )
        parts = [(holder, at) for (holder, _), (_, at) in zip(self._parts, split, strict=True)]
        return SpreadLocalRows(parts, (len(inside), self._shape[1]), CHOSEN)

    def _values(self, work: str, told: Told) -> Array:
        asked = [holder.ask(work, {**told, "of": self._name}) for holder, _ in self._parts]
        return _joined(asked, [of for _, of in self._parts], self._shape[0])

    def _inside(self, inside: Positions) -> list[tuple[Positions, Positions]]:
        """By worker its rows that are inside, and their places among all that are."""
        place = np.full(self._shape[0], -1)
        place[inside] = np.arange(len(inside))
        of_parts = [place[of] for _, of in self._parts]
        return [(np.flatnonzero(places >= 0), places[places >= 0]) for places in of_parts]


def _all(asked: Iterable[Pending]) -> list[Arrays]:
    """The results of work that is begun everywhere before the first result is waited for."""
    begun = list(asked)
    return [result() for result in begun]


def _joined(asked: Sequence[Pending], split: Sequence[Positions], count: int) -> Array:
    values = np.empty(count)
    for of, found in zip(split, _all(asked), strict=True):
        values[of] = found["values"]
    return values


def _added(asked: Iterable[Pending]) -> Array:
    return added(part for found in _all(asked) for part in found["parts"])
