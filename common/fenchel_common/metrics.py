"""What a round is remembered by."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.ids import ClientId, RoundId


@dataclass(frozen=True, slots=True)
class RoundMetrics:
    """One round's record.

    `primal`, `dual`, `gap` and `accuracy` certify the model that *entered* the round, and are there only if the round
    certified it. `gap` includes `gap_error`, the most that fixed-point rounding can have hidden. `dual_after` is D at
    the end of the round, where all parties took part in it. `figures` are the algorithm's own.
    """

    round: RoundId
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    gap_error: float | None = None
    accuracy: float | None = None
    dual_after: float | None = None
    samples_updated: int = 0
    participants: tuple[ClientId, ...] = ()
    absences: Mapping[ClientId, str] = field(default_factory=dict)
    stale: tuple[ClientId, ...] = ()
    note: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
