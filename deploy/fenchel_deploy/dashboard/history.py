"""What the rounds of a run come to, gathered round by round as they are read from the store, each of them once."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common import jsonrecord
from fenchel_common.jsonrecord import number
from fenchel_common.leakage import Ledger
from fenchel_common.metrics import CLASS_ACCURACY, R2, RMSE
from fenchel_common.scoresums import ScoreFigures
from fenchel_server.rounds.ledger import OWN_WORK, TOTAL, Kind
from fenchel_server.store.base import SETUP_ROUND
from fenchel_server.store.slices import RoundDetails, RoundFigures

MEASURES: Final = ("primal", "dual", "gap", "gap_error", "accuracy")
"""The figures that the metrics of every round have."""
FITS: Final = (RMSE, R2, CLASS_ACCURACY)
"""The figures of a round that may take the place of an accuracy."""
PARTY_SECONDS: Final = (*OWN_WORK.values(), "wire_s")
"""In the costs of a client: the seconds between its tasks and their results."""

Array = NDArray[np.float64]


class Presence(IntEnum):
    """What a party did in a round."""

    LEFT_OUT = 0
    NOT_ASKED = 1
    TOOK_PART = 2


@dataclass(slots=True)
class PartySums:
    """The costs of a party in all rounds that have been read in detail."""

    sums: Counter[str] = field(default_factory=Counter)
    peak_memory_bytes: float = 0.0
    rounds: int = 0

    def add(self, costs: Mapping[str, float]) -> None:
        self.rounds += 1
        self.peak_memory_bytes = max(self.peak_memory_bytes, costs.get("peak_memory_bytes", 0.0))
        for name, spent in costs.items():
            if name != "peak_memory_bytes":
                self.sums[name] += spent  # type: ignore[assignment]  # a Counter adds up fractions as well


class RunHistory:
    """The rounds of one run so far; position 0 of every list is the first round of training.

    `detailed` counts the rounds, the set-up included, whose large part has been read.
    """

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.closing: list[bool] = []
        self.measures: dict[str, list[float]] = {name: [] for name in (*MEASURES, *FITS)}
        self.seconds: dict[str, list[float]] = {kind: [] for kind in (TOTAL, *map(str, Kind))}
        self.bytes_up: list[int] = []
        self.bytes_down: list[int] = []
        self.trips: list[int] = []
        self.notes: list[str] = []
        self.scores: ScoreFigures | None = None
        self.setup: RoundFigures | None = None
        self.parties: dict[str, int] = {}
        self.reasons: list[tuple[int, str, str]] = []
        self.detailed = 0
        self.ciphertext_up: list[float] = []
        self.ciphertext_down: list[float] = []
        self.sums: dict[str, PartySums] = {}
        self._presence: list[NDArray[np.uint8]] = []
        self._latency: list[Array] = []
        self._seen: dict[str, dict[str, dict[str, Counter[str]]]] = {}

    @property
    def next_round(self) -> int:
        """The first round whose figures have not been read."""
        return 0 if self.setup is None else len(self.rounds) + 1

    def add_figures(self, read: Iterable[RoundFigures]) -> None:
        """Takes up further rounds, in order."""
        for one in read:
            if one.round_id == SETUP_ROUND:
                self.setup = one
            else:
                self._add_round(one)

    def _add_round(self, read: RoundFigures) -> None:
        metrics = read.metrics
        further = metrics.get("figures", {})
        self.rounds.append(read.round_id)
        self.closing.append(bool(metrics.get("closing", False)))
        for name in MEASURES:
            self.measures[name].append(_or_nan(metrics.get(name)))
        for name in FITS:
            self.measures[name].append(_or_nan(further.get(name)))
        for kind, spent in self.seconds.items():
            spent.append(read.seconds.get(kind, 0.0))
        if metrics.get("scores"):
            self.scores = jsonrecord.from_mapping(ScoreFigures, metrics["scores"])
        self.bytes_up.append(read.bytes_up)
        self.bytes_down.append(read.bytes_down)
        self.trips.append(len(metrics.get("phases", ())))
        self.notes.append(str(metrics.get("note", "")))
        reasons = {one.client: one.reason for one in read.absences} | dict(metrics.get("absences", {}))
        participants = frozenset(metrics.get("participants", ()))
        took_part = [self._index(name) for name in sorted(participants)]
        missed = [self._index(name) for name in reasons]
        present = np.full(len(self.parties), Presence.NOT_ASKED, dtype=np.uint8)
        present[missed] = Presence.LEFT_OUT
        present[took_part] = Presence.TOOK_PART
        self._presence.append(present)
        self.reasons += [(read.round_id, name, reason) for name, reason in reasons.items() if name not in participants]

    def add_details(self, read: Iterable[RoundDetails]) -> None:
        """Takes up the large parts of further rounds, in order."""
        for one in read:
            self.detailed = one.round_id + 1
            _merge(self._seen, one.seen)
            for name, costs in one.clients.items():
                self._index(name)
                self.sums.setdefault(name, PartySums()).add(costs)
            if one.round_id == SETUP_ROUND:
                continue
            self.ciphertext_up.append(sum(costs.get("ciphertext_up", 0) for costs in one.clients.values()))
            self.ciphertext_down.append(sum(costs.get("ciphertext_down", 0) for costs in one.clients.values()))
            away = np.full(len(self.parties), np.nan)
            for name, costs in one.clients.items():
                away[self.parties[name]] = sum(costs.get(kind, 0.0) for kind in PARTY_SECONDS)
            self._latency.append(away)

    @property
    def names(self) -> list[str]:
        """The parties, with numbers in their names in order."""
        return sorted(self.parties, key=_natural)

    def _index(self, name: str) -> int:
        return self.parties.setdefault(name, len(self.parties))

    def measure(self, name: str) -> Array:
        """A figure of every round; NaN where the round did not measure it."""
        return np.array(self.measures[name])

    def presence(self) -> NDArray[np.uint8]:
        """(rounds, parties): what each party did in each round."""
        table = np.full((len(self._presence), len(self.parties)), Presence.NOT_ASKED, dtype=np.uint8)
        for position, row in enumerate(self._presence):
            table[position, : len(row)] = row
        return table

    def latency(self) -> Array:
        """(rounds read in detail, parties): seconds between tasks and results; NaN where there was no result."""
        table = np.full((len(self._latency), len(self.parties)), np.nan)
        for position, row in enumerate(self._latency):
            table[position, : len(row)] = row
        return table

    def ledger(self, further: Mapping[str, Any]) -> Ledger:
        """The values that passed in all rounds read in detail, and those in `further`, a ledger as a mapping."""
        ledger = Ledger.from_mapping(self._seen)
        ledger.add_all(Ledger.from_mapping(further))
        return ledger

    def last_measured(self) -> int | None:
        """The position of the last round that measured its model; None without one."""
        found = np.flatnonzero(~np.isnan(self.measure("primal")))
        return int(found[-1]) if len(found) else None

    def total_seconds(self) -> float:
        """Of the set-up and of all rounds."""
        return sum(self.seconds[TOTAL]) + (0.0 if self.setup is None else self.setup.seconds.get(TOTAL, 0.0))

    def total_bytes(self) -> tuple[int, int]:
        """Up and down, of the set-up and of all rounds."""
        first = (0, 0) if self.setup is None else (self.setup.bytes_up, self.setup.bytes_down)
        return first[0] + sum(self.bytes_up), first[1] + sum(self.bytes_down)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _or_nan(value: object) -> float:
    found = number(value)
    return float("nan") if found is None else found


def _merge(whole: dict[str, dict[str, dict[str, Counter[str]]]], seen: Mapping[str, Any]) -> None:
    for party, directions in seen.items():
        for direction, fields in directions.items():
            tallies = whole.setdefault(party, {}).setdefault(direction, {})
            for name, kinds in fields.items():
                tallies.setdefault(name, Counter()).update(kinds)
