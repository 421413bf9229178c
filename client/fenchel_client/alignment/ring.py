"""The ring in which the lists of the alignment travel, as one party knows it, and the tags by which it knows a list.

The parties stand in the order of the roster. A list is made by its origin in step 0; in step j the party j positions
after the origin raises it. Whoever lists or raises in step j adds the tag

    HMAC-SHA-256(ring key, LABEL ‖ run, origin, j, the raiser, SHA-256 of the list)

with the length of each part before it. The party that is given a list in step j computes from its own roster which
origin and which raiser are due, and verifies the tag of step j − 1.

Protects: a server that relays the lists can put no list of its own making into the ring, alter none, exchange none for
another, let none skip a party or meet one twice.

Does not protect: every party of the run has the ring key, so a party that colludes with the server can make any tag.
"""

import hashlib
import hmac
from collections.abc import Sequence

from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId, RunId
from fenchel_common.wire.alignment import TaggedList

LABEL = b"fenchel/v1/ring\x00"
NOT_DUE = "it was given a list that is not the one due in this step of the alignment"

_STEP_BYTES = 4


class Ring:
    """One party's position in the ring of one set-up, and the steps in which it has raised a list.

    Parameters
    ----------
    clients
        The parties in the order of the roster.
    own
        The party whose position this is.
    key
        The ring key, which all parties of the run have and the server has not.
    """

    def __init__(self, clients: Sequence[ClientId], own: ClientId, *, key: bytes, run: RunId) -> None:
        if own not in clients:
            raise InvalidInput(f"clients: {own!r} is not one of the ring")
        self._clients = tuple(clients)
        self._position = self._clients.index(own)
        self._key = key
        self._run = run
        self._raised: set[int] = set()

    @property
    def own(self) -> ClientId:
        """The party whose position this is."""
        return self._before(0)

    def tagged(self, step: int, elements: bytes) -> TaggedList:
        """A list that this party has made (step 0) or raised (any later step), with its tag."""
        return TaggedList(elements, self._tag(step, self._before(step), self._before(0), elements))

    def check(self, step: int, relayed: TaggedList) -> None:
        """Refuses a list that this party is not to raise in this step, or that comes a second time.

        To be called once for each relayed list, before any of it is used.
        """
        if not 1 <= step < len(self._clients):
            raise Refusal(f"the ring has no step {step} in which a list is raised", public_reason=NOT_DUE)
        if step in self._raised:
            raise Refusal(f"the server relays the list of {self._before(step)!r} again", public_reason=NOT_DUE)
        due = self._tag(step - 1, self._before(step), self._before(1), relayed.elements)
        if not hmac.compare_digest(relayed.tag, due):
            raise Refusal(
                f"the list that the server relays in step {step} is not the one of {self._before(step)!r} as "
                f"{self._before(1)!r} gave it: the server slipped it in, altered it or took it out of its position",
                public_reason=NOT_DUE,
            )
        self._raised.add(step)

    def _before(self, positions: int) -> ClientId:
        """The party that stands `positions` positions before this party."""
        return self._clients[(self._position - positions) % len(self._clients)]

    def _tag(self, step: int, origin: ClientId, raiser: ClientId, elements: bytes) -> bytes:
        number, digest = step.to_bytes(_STEP_BYTES, "big"), hashlib.sha256(elements).digest()
        message = LABEL + framed(self._run.encode(), origin.encode(), number, raiser.encode(), digest)
        return hmac.digest(self._key, message, "sha256")
