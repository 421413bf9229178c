"""What a party does in a round of a corrective run."""

from dataclasses import dataclass

from fenchel_common.ids import ClientId
from fenchel_common.selection import Leg


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What a party does in a round, as it follows from the server's choices and the party's layout.

    Attributes
    ----------
    complete
        Whether all parties take part, so that all samples are live. Only then is P known, and a certificate possible.
    live_blocks
        The party's blocks of samples all of whose holders take part.
    report_blocks, feature_blocks
        The live blocks of samples, and the blocks of features, for which this party alone reports.
    told_blocks
        The live blocks of samples of which this party tells the vertex to holders without labels.
    divisors
        |B_n|, the number of label holders, of each live block.
    scale
        The number of all live samples, divided by the number of this party's live samples.
    objectives
        Whether the party tells the server P, D and the accuracy.
    tells_vertices
        Whether label holders tell the vertex to parties without labels, of which there is one at least.
    blank
        Whether no anchor and no model is on record yet. Both are zero, and so are all inner products.
    leg
        The leg of the round.
    leg_over
        Whether the leg has had so many rounds that it ends with this one.
    lambda_ahead
        The λ of the leg that follows and begins where this one ends, or that of this leg.
    """

    round_id: int
    participants: frozenset[ClientId]
    collapse: bool
    closing: bool
    complete: bool
    live_samples: int
    live_blocks: tuple[int, ...]
    report_blocks: tuple[int, ...]
    feature_blocks: tuple[int, ...]
    told_blocks: tuple[int, ...]
    divisors: tuple[int, ...]
    scale: float
    objectives: bool
    tells_vertices: bool
    blank: bool
    label_holders: frozenset[ClientId]
    leg: Leg
    leg_over: bool
    lambda_ahead: float

    def contributors(self, holders: tuple[ClientId, ...]) -> list[ClientId]:
        """Those of the holders of a block that take part; of all parties if `holders` is empty."""
        return [client for client in holders or self.participants if client in self.participants]

    def labelled_contributors(self, holders: tuple[ClientId, ...]) -> list[ClientId]:
        """Those of the holders of a block that take part and have labels."""
        return [client for client in self.contributors(holders) if client in self.label_holders]
