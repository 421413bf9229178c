"""Points and exponents of Curve25519, by u-coordinates.

An exponent is 32 bytes, clamped as X25519 demands: a multiple of the cofactor 8, so that no part of a point's
small-order component survives the first multiplication, and never zero modulo the group order. Every exponent modulo
the order of the group has a clamped form up to its sign, and a u-coordinate does not depend on the sign.

Sample ids become points of the curve by a hash. Who raises points to an exponent of its own hides the ids behind it.
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
ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of the group that the base point generates, a prime."""
COFACTOR = 8
POINT_BYTES = 32

SMALL_ORDER_U = frozenset(
    {
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)
"""The u-coordinates of the points of order 1, 2, 4 and 8 on the curve."""

_LABEL = b"fenchel/v1/alignment/ecdh"
_COUNTER_BYTES = 4
_LEAST, _BOUND = 1 << 254, 1 << 255


def fresh_exponent() -> bytes:
    """A random exponent, clamped, from the operating system."""
    return _clamped(int.from_bytes(secrets.token_bytes(POINT_BYTES), "little")).to_bytes(POINT_BYTES, "little")


def quotient(dividend: bytes | None, divisor: bytes) -> bytes:
    """The exponent that does as much as `dividend` once `divisor` is taken off; without a dividend, it takes it off.

    Raises `InvalidInput` in the case, as rare as a guessed key, that it has no clamped form.
    """
    number = 1 if dividend is None else int.from_bytes(dividend, "little")
    wanted = number * int(gmpy2.invert(int.from_bytes(divisor, "little"), ORDER)) % ORDER
    # The multiple of the cofactor that is congruent to the wanted number modulo the order.
    lifted = wanted + ORDER * (-wanted * pow(ORDER, -1, COFACTOR) % COFACTOR)
    for candidate in (lifted, COFACTOR * ORDER - lifted):
        if _LEAST <= candidate < _BOUND:
            return candidate.to_bytes(POINT_BYTES, "little")
    raise InvalidInput("exponent: has no clamped form")


def multiplied(points: Iterable[bytes], exponent: bytes) -> bytes:
    """Points of the curve times an exponent, end to end; the caller has checked them or made them."""
    key = X25519PrivateKey.from_private_bytes(exponent)
    raised = io.BytesIO()
    for point in points:
        raised.write(key.exchange(X25519PublicKey.from_public_bytes(point)))
    return raised.getvalue()


def checked_points(elements: bytes) -> Iterable[bytes]:
    """The points in a list that came from elsewhere, one by one.

    Refuses whatever an honest party cannot have sent: an encoding that is not canonical, a point of the twist, a point
    of small order.
    """
    for start in range(0, len(elements), POINT_BYTES):
        yield _checked(elements[start : start + POINT_BYTES])


def is_on_curve(u: int) -> bool:
    """Whether v² = u³ + A·u² + u has a solution, which is to say that u belongs to the curve, not to its twist."""
    if u == 0:
        return True
    right_side = u * (u * u + CURVE_A * u + 1)
    return bool(gmpy2.legendre(right_side, FIELD_PRIME) == 1)


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


def is_exponent(exponent: bytes) -> bool:
    """Whether these are the bytes of a clamped exponent."""
    number = int.from_bytes(exponent, "little")
    return len(exponent) == POINT_BYTES and _clamped(number) == number


def _clamped(number: int) -> int:
    return (number % _LEAST | _LEAST) // COFACTOR * COFACTOR


def _checked(element: bytes) -> bytes:
    u = int.from_bytes(element, "little")
    if len(element) != POINT_BYTES or u >= FIELD_PRIME:
        raise InvalidInput("alignment: elements: an element is not the canonical form of a point")
    if u in SMALL_ORDER_U:
        raise InvalidInput("alignment: elements: a point is of small order")
    if not is_on_curve(u):
        raise InvalidInput("alignment: elements: a point is not on the curve")
    return element
