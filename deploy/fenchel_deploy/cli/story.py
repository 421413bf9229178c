"""What is known of a run at the moment, gathered from its events, for the live view."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fenchel_deploy.cli.eventlines import page_in_words, round_in_words

TOTAL: Final = "total"
"""Among the kinds of a run's seconds: all of them."""
ETA_ROUNDS: Final = 20
"""The time that is left is told from the last measured rounds, at most this many."""


@dataclass(frozen=True, slots=True)
class PartyNow:
    """What a party does; `phase` is that of the task that it owes, None if it owes none."""

    name: str
    connected: bool
    since: float
    reason: str
    phase: str | None


class RunStory:
    """The run that is followed; `tell` takes its events in order.

    The attributes are replaced, never changed in place: another thread may read them at any time.
    """

    def __init__(self, title: str = "", state: str = "starting") -> None:
        self.title = title
        self.state = state
        self.run = ""
        self.page: str | None = None
        self.privacy: str | None = None
        self.cipher: str | None = None
        self.key_bits: int | None = None
        self.key_fingerprint: str | None = None
        self.round = 0
        self.rounds_limit: int | None = None
        self.gap: float | None = None
        self.gap_target: float | None = None
        self.measured = ""
        self.seconds: Mapping[str, float] = {}
        self.parties: tuple[PartyNow, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._gaps: tuple[tuple[float, float], ...] = ()

    def tell(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "stage":
                self.state = event["stage"]
            case "dashboard":
                self.page = page_in_words(event)
            case "centralized":
                self.state = "starting the server and the parties"
            case "begins":
                self._begin(event)
            case "ready":
                self.key_bits, self.key_fingerprint = event["key_bits"], event["key_fingerprint"]
            case "status":
                self.state = ": ".join(filter(None, (event["status"], event["reason"])))
            case "parties":
                self._take_parties(event["parties"])
            case "waiting":
                self.state = f"waiting for {', '.join(event['for'])}"
            case "phase":
                self.state = f"{_part(event['round'])}: {event['phase']}"
            case "warning":
                self.warnings = (*self.warnings, event["warning"])
            case "round":
                self._add_round(event)
            case "worked":
                self.state, self.round = "waiting for the next task", event["round"]
                self.seconds = event["seconds"]
                if event["gap"] is not None:
                    self.gap, self.measured = event["gap"], f"gap {event['gap']:.3e}"
            case "ended":
                self.state = f"{event['status']}: {event['reason']}"
                self.parties = ()

    def _take_parties(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self.parties = tuple(map(_party, entries))
        if owed := [entry["owes"] for entry in entries if entry["owes"] is not None]:
            self.state = f"{_part(owed[0]['round'])}: {owed[0]['phase']}"

    def _begin(self, event: Mapping[str, Any]) -> None:
        self.title = self.title or event["name"]
        self.run = f"{event['run']}, {event['algorithm']}"
        self.state, self.round = "the run begins", event["round"]
        self.privacy, self.cipher = event["privacy"], event["cipher"]
        self.key_bits, self.key_fingerprint = event["key_bits"], event["key_fingerprint"]
        self.gap_target, self.rounds_limit = event["gap_target"], event["rounds_limit"]

    def _add_round(self, event: Mapping[str, Any]) -> None:
        if not event["closing"]:
            self.round = event["round"]
        kinds: Mapping[str, float] = event["costs"]["seconds"]
        self.seconds = {kind: self.seconds.get(kind, 0.0) + spent for kind, spent in kinds.items()}
        self.measured = round_in_words(event) or self.measured
        if event["gap"] is not None:
            self.gap = float(event["gap"])
            self._gaps = (*self._gaps, (self.seconds[TOTAL], self.gap))[-ETA_ROUNDS:]

    @property
    def left_s(self) -> float | None:
        """About how many seconds are left until the gap is reached; None if that cannot be told.

        The logarithm of the gap is taken to fall as steadily as over the last measured rounds.
        """
        if self.gap_target is None or len(self._gaps) < 2 or self.gap_target <= 0:
            return None
        (began_s, first), (now_s, last) = self._gaps[0], self._gaps[-1]
        if not 0 < last < first < math.inf or now_s <= began_s:
            return None
        pace = math.log(first / last) / (now_s - began_s)
        return max(math.log(last / self.gap_target) / pace, 0.0)


def _part(round_id: int) -> str:
    return f"round {round_id}" if round_id else "the set-up"


def _party(entry: Mapping[str, Any]) -> PartyNow:
    owes = entry["owes"]
    return PartyNow(
        entry["party"], entry["connected"], entry["since"], entry["reason"], None if owes is None else owes["phase"]
    )
