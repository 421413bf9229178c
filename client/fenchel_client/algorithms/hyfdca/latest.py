"""Sums of the latest contribution of each holder of a block, made in different phases, as the records show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fenchel_client.crypto.plain import Partners
from fenchel_client.crypto.stamps import JointPhase, Origin, Stamp
from fenchel_client.transcript import StampedRecord
from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class LatestContributions:
    """The latest contribution of each holder to each block of one party.

    Attributes
    ----------
    party
        The party whose blocks these are.
    sent_as
        The field of the messages that has the contributions.
    stamps
        The stamps of the messages, by block and contributor.
    joint
        The last phase in which this party and another one both contributed, by block and other party.
    """

    party: ClientId
    sent_as: str
    stamps: Mapping[tuple[int, ClientId], Stamp] = field(default_factory=dict)
    joint: Mapping[tuple[int, ClientId], JointPhase] = field(default_factory=dict)

    def origins_of(self, block: int, holders: Iterable[ClientId]) -> list[Origin]:
        """The origins of the sum of a block; none if it is zero."""
        return [
            Origin(self.stamps[block, holder], self.sent_as) for holder in holders if (block, holder) in self.stamps
        ]

    def in_order(self) -> list[Stamp]:
        """All stamps, by block and contributor."""
        return [self.stamps[place] for place in sorted(self.stamps)]

    def partners(self, block: int, holders: Iterable[ClientId], contributors: Iterable[ClientId]) -> Partners:
        """The partners of this party in a phase in which these holders contribute to a block."""
        earlier = {holder: self.joint[block, holder] for holder in holders if (block, holder) in self.joint}
        return {**earlier, **dict.fromkeys(contributors)}

    def after(self, record: StampedRecord, due: Mapping[int, tuple[ClientId, ...]]) -> "LatestContributions":
        """The latest contributions after a phase in which the parties in `due` were to contribute to each block.

        A block to which not all of them have contributed stays as it was: their masks do not cancel.
        """
        given = {block: parties for block, parties in due.items() if record.stamps.keys() >= set(parties)}
        stamps = {(block, one): record.stamps[one] for block, parties in given.items() for one in parties}
        joint = {
            (block, other): JointPhase(record.moment, record.stamps[other].view, parties)
            for block, parties in given.items()
            if self.party in parties
            for other in parties
            if other != self.party
        }
        return LatestContributions(self.party, self.sent_as, {**self.stamps, **stamps}, {**self.joint, **joint})
