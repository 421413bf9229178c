"""How many samples each client updates in a round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy

INITIAL_FRACTION: Final = 0.1
SMALLEST_FRACTION: Final = 1e-4  # from which it can grow back within a bearable number of rounds
SHRINK: Final = 0.5
GROW: Final = 1.05


class HyfdcaChoices(Protocol):
    """The settings that HyFDCA's family reads; `HyfdcaSettings` has them."""

    @property
    def privacy(self) -> Privacy: ...

    @property
    def local(self) -> str: ...

    @property
    def loss(self) -> str: ...

    @property
    def h(self) -> Literal["auto"] | int | float: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """H, and its automatic choice.

    In the practical variant all samples of a round are updated against one frozen w. Such steps help each other up to
    some number of them and then overshoot, and the number depends on the data. D tells: it falls when there were too
    many. The share of each client's samples starts low, grows while D rises and is cut when D has fallen.

    At the end of a round D is known of the α that *entered* it, which the round before had made. So it is the share of
    the round before that is judged, and corrected for the round that comes: no fall is answered twice.

    Attributes
    ----------
    share
        For the round that comes, or is under way.
    earlier
        Of the round before that.
    dual
        D as last known.
    """

    fraction: float = INITIAL_FRACTION
    earlier: float = INITIAL_FRACTION
    dual: float | None = None

    def after_round(self, dual: float | None) -> "Pace":
        """The pace of the next round, given D of the α that entered this one, where it became known."""
        following = self.fraction
        if dual is not None and self.dual is not None:
            fallen = dual < self.dual
            following = max(SMALLEST_FRACTION, self.earlier * SHRINK) if fallen else min(1.0, self.earlier * GROW)
        return Pace(following, self.fraction, self.dual if dual is None else dual)

    def samples(self, settings: HyfdcaChoices, held: Mapping[ClientId, int], client: ClientId) -> int:
        """H for one client, between 1 and what it holds; `held` counts the samples of every label holder."""
        if settings.h == "auto":
            theory = settings.local == "theory"
            count = min(held.values()) if theory else round(self.fraction * held[client])
        else:
            count = settings.h if isinstance(settings.h, int) else round(settings.h * held[client])
        return min(max(count, 1), held[client])


def follows_dual(settings: HyfdcaChoices) -> bool:
    """Whether H depends on D, which must then be told every round."""
    return settings.h == "auto" and settings.local == "paper"
