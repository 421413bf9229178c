"""Sums of the same values over different parties, which show a part.

Masks between pairs hide a party's contribution in the sum over its *company*: the parties that contribute with it, and
the weights of their contributions. If parties contribute twice from one state of the model, each time in another
company, the difference of the two sums shows a server that colludes with one of them the part of those that left. A
server repeats a round in another company if a party has failed. So a party counts its companies (`runrecords`). A
repeat in the same company shows nothing, and is not counted.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Final

from fenchel_client.crypto.stamps import Stamp
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId
from fenchel_common.setup import FIRST_STATE, Company

_DIGEST_BYTES: Final = 16


def company_of(made_by: Mapping[ClientId, Stamp], weights: Mapping[ClientId, float]) -> Company:
    """The company of parties with these weights, from the state that these messages made; none made the first state."""
    members = framed(*(framed(client.encode(), struct.pack(">d", weights[client])) for client in sorted(weights)))
    state = _digest(framed(*(stamp.nonce for stamp in made_by.values()))) if made_by else FIRST_STATE
    return Company(state, _digest(members))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
