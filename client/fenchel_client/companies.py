"""A bound on sums of the same values over different parties, which survives restarts and repeated rounds.

Masks between pairs hide a party's contribution in the sum over its *company*: the parties that contribute with it, and
the weights of their contributions. If parties contribute twice from one state of the model, each time in another
company, the difference of the two sums shows a server that colludes with one of them the part of those that left. A
server repeats a round in another company if a party has failed. So a party contributes from one state in two companies
at most, and in a second one only a few times in a run. A repeat in the same company shows nothing, and is not counted.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fenchel_client.crypto.stamps import Stamp
from fenchel_common.errors import Refusal
from fenchel_common.framing import framed
from fenchel_common.ids import ClientId
from fenchel_common.setup import FIRST_STATE, Company, PartyRun

MAX_COMPANIES_OF_A_STATE: Final = 2
"""The most companies in which a party contributes from one state of the model."""
MAX_CHANGES_OF_COMPANY: Final = 3
"""The most times in a run that a party contributes from the same state in a second company."""
OTHER_COMPANY: Final = (
    "it has contributed from this state of the model in another company already, and goes on in the same company alone"
)
_DIGEST_BYTES: Final = 16


def company_of(made_by: Mapping[ClientId, Stamp], weights: Mapping[ClientId, float]) -> Company:
    """The company of parties with these weights, from the state that these messages made; none made the first state."""
    members = framed(*(framed(client.encode(), struct.pack(">d", weights[client])) for client in sorted(weights)))
    state = _digest(framed(*(stamp.nonce for stamp in made_by.values()))) if made_by else FIRST_STATE
    return Company(state, _digest(members))


def with_company(kept: PartyRun, company: Company) -> PartyRun:
    """The record of a run in which the party contributes in this company; `Refusal` if its bounds do not allow it.

    Companies of the first state are kept for good, because a new set-up of the run begins with that state again. A
    server cannot go back to any other state once the party has contributed from a later one.
    """
    known = tuple(one for one in kept.companies if one.state in (FIRST_STATE, company.state))
    if company in known:
        return replace(kept, companies=known)
    earlier = sum(one.state == company.state for one in known)
    if earlier >= MAX_COMPANIES_OF_A_STATE or (earlier and kept.changes_of_company >= MAX_CHANGES_OF_COMPANY):
        raise Refusal(
            "the server asks for the same contribution again, to be added to those of other parties or with other "
            "weights; the difference of such sums shows one party's part. This happened "
            f"{kept.changes_of_company} times in this run, and this party allows it {MAX_CHANGES_OF_COMPANY} times, "
            "and once for each state of the model. The run goes on when the parties are back that took part before",
            public_reason=OTHER_COMPANY,
        )
    changes = kept.changes_of_company + bool(earlier)
    return replace(kept, companies=(*known, company), changes_of_company=changes)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
