"""Blinding of sample ids by multi-party Diffie-Hellman on Curve25519.

Every party k draws a secret scalar a_k for the run. An id is hashed to a point H(id) of the curve; a list of points
travels a ring of all parties, each of which multiplies every point by its own scalar. Scalars commute, so all lists
end under the same product,

    pseudonym(id) = [a_1 · a_2 · … · a_K] H(id),

and equal ids get equal pseudonyms, whoever listed them.

Protects: under the decisional Diffie-Hellman assumption neither the relaying server nor a single party can link a
point to an id, not even by trying all ids, since each try needs the scalars of all parties.

Does not protect: by itself, against a server that leaves the protocol and sends lists of its own choice round the ring
as if they were a party's (the tags of `ring` do); against two parties that pool their scalars to find which of their
ids a third one holds. Every party also sees how many rows the others list.
"""

import hashlib
import io
import secrets
from collections.abc import Iterable

import gmpy2
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId

FIELD_PRIME = gmpy2.mpz(2**255 - 19)
CURVE_A = 486662
POINT_BYTES = 32

_LABEL = b"fenchel/v1/alignment/ecdh"
_COUNTER_BYTES = 4

SMALL_ORDER_U = frozenset(
    {
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)
"""The u-coordinates of the points of order 1, 2, 4 and 8 on the curve."""


class RingSecret:
    """One party's scalar for one run.

    The scalar comes from the operating system, lives in this object alone and is clamped as X25519 demands: a
    multiple of the cofactor 8, so that no part of a point's small-order component survives the first
    multiplication, and never zero modulo the group order.
    """

    __slots__ = ("_key", "_run")

    def __init__(self, run: RunId) -> None:
        self._run = run
        self._key = X25519PrivateKey.from_private_bytes(secrets.token_bytes(POINT_BYTES))

    def blind_ids(self, ids: Iterable[str]) -> bytes:
        """Hashes ids to the curve and multiplies them by this party's scalar, in order, end to end."""
        return self._multiplied(hash_to_curve(sample_id, self._run) for sample_id in ids)

    def raise_elements(self, elements: bytes) -> bytes:
        """Multiplies points that came from elsewhere, end to end, by this party's scalar, in order.

        Refuses whatever an honest party cannot have sent: an encoding that is not canonical, a point of the
        twist, a point of small order.
        """
        starts = range(0, len(elements), POINT_BYTES)
        return self._multiplied(_checked(elements[start : start + POINT_BYTES]) for start in starts)

    # The `cryptography` package keeps the interpreter's lock during an exchange (40 µs), so threads gain nothing.
    def _multiplied(self, points: Iterable[bytes]) -> bytes:
        raised = io.BytesIO()
        for point in points:
            raised.write(self._key.exchange(X25519PublicKey.from_public_bytes(point)))
        return raised.getvalue()


def hash_to_curve(sample_id: str, run: RunId) -> bytes:
    """The point of an id in one run, as a canonical u-coordinate on the curve, not of small order.

    A hash is a u-coordinate of the curve or of its twist with even chances; the two groups have different orders,
    so the hash is repeated with the next counter until it is one of the curve.
    """
    scope = run.encode()
    prefix = hashlib.sha512(_LABEL + len(scope).to_bytes(4, "big") + scope)
    encoded_id = sample_id.encode()
    for counter in range(2 ** (8 * _COUNTER_BYTES)):
        digest = prefix.copy()
        digest.update(counter.to_bytes(_COUNTER_BYTES, "big") + encoded_id)
        # 512 bits reduced modulo a 255-bit prime are uniform up to 2^-257.
        u = int.from_bytes(digest.digest(), "little") % int(FIELD_PRIME)
        if is_on_curve(u) and u not in SMALL_ORDER_U:
            return u.to_bytes(POINT_BYTES, "little")
    raise AssertionError("unreachable: each hash is on the curve with probability one half")


def is_on_curve(u: int) -> bool:
    """Whether v² = u³ + A·u² + u has a solution, which is to say that u belongs to the curve, not to its twist."""
    if u == 0:
        return True
    right_side = u * (u * u + CURVE_A * u + 1)
    return bool(gmpy2.legendre(right_side, FIELD_PRIME) == 1)


def _checked(element: bytes) -> bytes:
    u = int.from_bytes(element, "little")
    if len(element) != POINT_BYTES or u >= FIELD_PRIME:
        raise InvalidInput("alignment: elements: an element is not the canonical form of a point")
    if u in SMALL_ORDER_U:
        raise InvalidInput("alignment: elements: a point is of small order")
    if not is_on_curve(u):
        raise InvalidInput("alignment: elements: a point is not on the curve")
    return element
