"""Pseudonyms of feature names: what the server knows of them.

    pseudonym(name) = HMAC-SHA-256(names key, name), cut to 16 bytes; as text in hexadecimal

The constant feature of a run with an intercept has a fixed pseudonym, which comes first in their order. All parties of
a run have the names key, so a feature has the same pseudonym at all of its holders. The server sorts
features by pseudonym: their order tells nothing of their names, and is another one in each set-up.

Protects: the server, which does not have the key, can neither read a name nor test one that it guesses, nor recognise
a feature of another run.

Does not protect: every party can compute the pseudonym of any name, so a party that colludes with the server learns the
names of others by trial. How many features a party has, and which of them others hold too, is visible.
"""

import hmac
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.alignment.order import sorting_order
from fenchel_client.crypto.derivedkeys import names_key
from fenchel_common.ids import RunId
from fenchel_common.intercept import INTERCEPT, INTERCEPT_PSEUDONYM
from fenchel_common.wire.alignment import PSEUDONYM_BYTES


def pseudonyms(names: Sequence[str], *, tag_secret: bytes, run: RunId) -> tuple[str, ...]:
    """The pseudonym of each name, in order."""
    key = names_key(tag_secret, run)
    return tuple(
        INTERCEPT_PSEUDONYM if name == INTERCEPT else hmac.digest(key, name.encode(), "sha256")[:PSEUDONYM_BYTES].hex()
        for name in names
    )


def columns_by_pseudonym(names: Sequence[str], *, tag_secret: bytes, run: RunId) -> NDArray[np.int64]:
    """For each feature, in the order of the pseudonyms, its position among the names in their own order."""
    marks = pseudonyms(sorted(names), tag_secret=tag_secret, run=run)
    return sorting_order(marks)
