"""H, the number of samples that each client updates in a round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from fenchel_common.ids import ClientId
from fenchel_common.privacy import Privacy

INITIAL_FRACTION: Final = 0.1
SMALLEST_FRACTION: Final = 1e-4  # from here it can grow back to 1 within 200 rounds
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

    In the practical variant a round updates all its samples with the same w. Up to some number of samples, which
    depends on the data, D rises; with more samples the steps overshoot and D falls. So the updated fraction of each
    client's samples starts low, grows while D rises and is cut when D has fallen.

    At the end of a round D is known for the α that *entered* the round, which the round before made. So D judges the
    fraction of the round before, and that fraction is corrected for the next round. No fall is answered twice.

    Attributes
    ----------
    fraction
        The fraction of the current or next round.
    earlier
        The fraction of the round before that.
    dual
        The last known D.
    """

    fraction: float = INITIAL_FRACTION
    earlier: float = INITIAL_FRACTION
    dual: float | None = None

    def after_round(self, dual: float | None) -> "Pace":
        """The pace of the next round, given D of the α that entered this one; None if D is not known."""
        following = self.fraction
        if dual is not None and self.dual is not None:
            fallen = dual < self.dual
            following = max(SMALLEST_FRACTION, self.earlier * SHRINK) if fallen else min(1.0, self.earlier * GROW)
        return Pace(following, self.fraction, self.dual if dual is None else dual)

    def samples(self, settings: HyfdcaChoices, sample_counts: Mapping[ClientId, int], client: ClientId) -> int:
        """H for one client, between 1 and all its samples; `sample_counts` are those of every label holder."""
        if settings.h == "auto":
            theory = settings.local == "theory"
            count = min(sample_counts.values()) if theory else round(self.fraction * sample_counts[client])
        else:
            count = settings.h if isinstance(settings.h, int) else round(settings.h * sample_counts[client])
        return min(max(count, 1), sample_counts[client])


def follows_dual(settings: HyfdcaChoices) -> bool:
    """Whether H depends on D; then every round must report D."""
    return settings.h == "auto" and settings.local == "paper"
