"""Blinding of sample ids by a hash under a secret that all parties know.

Protects: the server, which does not know the secret, cannot link a pseudonym to an id, nor recognise one of another
run.

Does not protect: every party can compute the pseudonym of any id, so a party that sees the server's lists learns the
other parties' ids by trial. `fenchel_client.alignment.ecdh` has no such key.
"""

import hmac
from collections.abc import Iterable

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId

MIN_SECRET_BYTES = 32

_LABEL = b"fenchel/v1/alignment/hmac"


def keyed_pseudonyms(ids: Iterable[str], *, secret: bytes, run: RunId) -> tuple[bytes, ...]:
    """HMAC-SHA-256 of each id, in order, under a key made from the shared secret for this run alone."""
    if len(secret) < MIN_SECRET_BYTES:
        raise InvalidInput(f"secret: the shared secret must have at least {MIN_SECRET_BYTES} bytes")
    run_key = hmac.digest(secret, _LABEL + run.encode(), "sha256")
    return tuple(hmac.digest(run_key, sample_id.encode(), "sha256") for sample_id in ids)
