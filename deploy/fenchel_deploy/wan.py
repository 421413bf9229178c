"""Wide-area networks to run a federation over, and the predicted time of a round on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fenchel_common.errors import InvalidInput

PROFILES_S: Mapping[str, float] = {"none": 0.0, "us-singapore": 0.2575, "geo": 0.8}
"""Seconds of a round trip: the three latencies of HyFDCA's supplement, the last one over a geostationary satellite."""
BETWEEN_TASKS = ("wire", "wait", "clients")
"""The kinds of a round's seconds in which nobody works."""


@dataclass(frozen=True, slots=True)
class Wan:
    """A profile, and Mbit/s for each party's connection each way (None: no limit)."""

    profile: str = "none"
    mbit: float | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES_S:
            raise InvalidInput(f"--wan: {self.profile!r} is not one of: {', '.join(PROFILES_S)}")
        if self.mbit is not None and not self.mbit > 0:
            raise InvalidInput(f"--bandwidth: {self.mbit:g} Mbit/s is not more than 0")

    @property
    def rtt_s(self) -> float:
        return PROFILES_S[self.profile]

    @property
    def relayed(self) -> bool:
        """Whether a relay is needed between the parties and the server."""
        return self.rtt_s > 0 or self.mbit is not None

    def relay_command(self, *, listen: str, target: str) -> list[str]:
        """The arguments of `fenchel` that start the relay of this network."""
        command = ["relay", "--listen", listen, "--to", target, "--delay-ms", f"{self.rtt_s * 500:g}"]
        return command if self.mbit is None else [*command, "--mbit", f"{self.mbit:g}"]

    def report(self, run: Mapping[str, Any], *, measured_rtt_s: float) -> dict[str, Any]:
        """The median round's measured and predicted seconds, from the report of a run.

        The prediction is the number of round trips times the profile's latency, plus the measured work.
        """
        spent: Mapping[str, float] = run["round_seconds"]
        work_s = sum(seconds for kind, seconds in spent.items() if kind not in ("total", *BETWEEN_TASKS))
        trips = run["rtc_per_round"]
        return {
            "profile": self.profile,
            "mbit": self.mbit,
            "rtt_s": self.rtt_s,
            "measured_rtt_s": measured_rtt_s,
            "round_s": spent.get("total"),
            "work_s": work_s,
            "predicted_round_s": None if trips is None else trips * self.rtt_s + work_s,
        }


NEAR: Final = Wan()
"""No network between: all on one machine."""
