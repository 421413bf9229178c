"""How many samples each client updates in a round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fenchel_common.algorithms.hyfdca import HyfdcaSettings
from fenchel_common.ids import ClientId

INITIAL_SHARE: Final = 0.1
SMALLEST_SHARE: Final = 1e-4  # from which it can grow back within a bearable number of rounds
SHRINK: Final = 0.5
GROW: Final = 1.05


@dataclass(slots=True)
class Pace:
    """H, and its automatic choice.

    In the practical variant all samples of a round are updated against one frozen w. Such steps help each other up to
    some number of them and then overshoot, and the number depends on the data. D tells: it falls when there were too
    many. `share` of each client's samples starts low, grows while D rises and is cut when D has fallen.
    """

    share: float = INITIAL_SHARE
    dual: float | None = None

    def observe(self, dual: float) -> None:
        """Takes note of D(α), as often as it becomes known."""
        if self.dual is not None:
            fallen = dual < self.dual
            self.share = max(SMALLEST_SHARE, self.share * SHRINK) if fallen else min(1.0, self.share * GROW)
        self.dual = dual

    def samples(self, settings: HyfdcaSettings, held: Mapping[ClientId, int], client: ClientId) -> int:
        """H for one client, between 1 and what it holds; `held` counts the samples of every label holder."""
        if settings.h == "auto":
            theory = settings.local == "theory"
            count = min(held.values()) if theory else round(self.share * held[client])
        else:
            count = settings.h if isinstance(settings.h, int) else round(settings.h * held[client])
        return min(max(count, 1), held[client])
