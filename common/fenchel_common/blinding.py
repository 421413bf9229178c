"""The way of each list in the alignment by blinding parties: who works on it in which step.

A few parties of the roster are blinding parties. The list of any other party, its owner, goes

    owner → blinding parties but one → owner → the last blinding party → server

and that of a blinding party from itself past the other blinding parties to the server. Parties and server compute the
ways from their rosters. The order of the blinding parties is another one for each owner, so that they have equal parts
of the work, and so that a blinding party is never the last one on the way of its own list.
"""

from dataclasses import dataclass

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class BlindingWays:
    """The ways of all lists.

    Attributes
    ----------
    clients
        The parties in the order of the roster.
    blinders
        The blinding parties, in the same order: at least two, or all if there is one party.
    """

    clients: tuple[ClientId, ...]
    blinders: tuple[ClientId, ...]

    def __post_init__(self) -> None:
        if len(self.blinders) < min(2, len(self.clients)) or not set(self.blinders) <= set(self.clients):
            raise InvalidInput("blinders: at least two parties of the roster must be blinding parties")

    def way(self, origin: ClientId) -> tuple[ClientId, ...]:
        """The party that works on the list of `origin` in each step."""
        blinders = self.blinders
        if origin in blinders:
            first = blinders.index(origin)
            return (*blinders[first:], *blinders[:first])
        first = self._owners().index(origin) % len(blinders)
        *earlier, last = (*blinders[first:], *blinders[:first])
        return (origin, *earlier, origin, last)

    def is_owners_turn(self, origin: ClientId, step: int) -> bool:
        """Whether the owner of a list takes its own exponent off in this step, and seals the list."""
        return origin not in self.blinders and step == len(self.blinders)

    def is_sealed_to(self, origin: ClientId, step: int) -> bool:
        """Whether the list is sealed by its owner when it comes to this step."""
        return origin not in self.blinders and step == len(self.blinders) + 1

    def neighbours(self, party: ClientId) -> tuple[ClientId, ...]:
        """The parties that may be next to this one on the way of a list: it needs a secret in common with each."""
        met = self.clients if party in self.blinders else self.blinders
        return tuple(client for client in met if client != party)

    def _owners(self) -> tuple[ClientId, ...]:
        """The parties that are no blinding parties."""
        return tuple(client for client in self.clients if client not in self.blinders)
