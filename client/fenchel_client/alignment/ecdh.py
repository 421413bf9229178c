"""Blinding of sample ids by multi-party Diffie-Hellman on Curve25519.

Each of several parties k draws a secret exponent a_k for one set-up. An id is hashed to a point H(id) of the curve; a
list of points travels past these parties, each of which multiplies every point by its own exponent. Exponents commute,
so all lists end under the same product,

    pseudonym(id) = [a_1 · a_2 · … · a_m] H(id),

and equal ids get equal pseudonyms, whoever listed them. In the ring all parties raise all lists; with blinding parties
these alone do.

Protects: under the decisional Diffie-Hellman assumption neither the relaying server nor a party can link a point to an
id, not even by trying all ids, unless the exponents of all who raised the list are known: each try needs them all.

Does not protect: by itself, against a server that leaves the protocol and sends lists of its own choice round as if
they were a party's (the tags of `ring` and `blinders` do). Every party that raises a list sees how many rows it has.
"""

from collections.abc import Iterable

from fenchel_common.crypto.curve import checked_points, fresh_exponent, hash_to_curve, multiplied
from fenchel_common.ids import RunId


class RingSecret:
    """One party's exponent for one run of the ring.

    The exponent comes from the operating system and lives in this object alone.
    """

    __slots__ = ("_exponent", "_run")

    def __init__(self, run: RunId) -> None:
        self._run = run
        self._exponent = fresh_exponent()

    def blind_ids(self, ids: Iterable[str]) -> bytes:
        """Hashes ids to the curve and multiplies them by this party's exponent, in order, end to end."""
        return multiplied((hash_to_curve(sample_id, self._run) for sample_id in ids), self._exponent)

    def raise_elements(self, elements: bytes) -> bytes:
        """Multiplies points that came from elsewhere, end to end, by this party's exponent, in order.

        Refuses whatever an honest party cannot have sent.
        """
        return multiplied(checked_points(elements), self._exponent)
