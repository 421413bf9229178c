import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fenchel_client.alignment.ecdh import RingSecret
from fenchel_common.crypto import curve
from fenchel_common.crypto.curve import FIELD_PRIME, SMALL_ORDER_U, hash_to_curve, is_on_curve
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import RunId
from fenchel_common.wire.alignment import split_elements

RUN = RunId("run-1")
PRIME = int(FIELD_PRIME)


def _u(point: bytes) -> int:
    return int.from_bytes(point, "little")


def _point(u: int) -> bytes:
    return u.to_bytes(32, "little")


def _first_hash(sample_id: str) -> int:
    scope = RUN.encode()
    message = b"fenchel/v1/alignment/ecdh" + len(scope).to_bytes(4, "big") + scope + bytes(4) + sample_id.encode()
    return _u(hashlib.sha512(message).digest()) % PRIME


def test_the_order_of_secrets_does_not_matter() -> None:
    a, b, c = RingSecret(RUN), RingSecret(RUN), RingSecret(RUN)
    ids = [f"patient-{number}" for number in range(20)]
    one = c.raise_elements(b.raise_elements(a.blind_ids(ids)))
    other = a.raise_elements(c.raise_elements(b.blind_ids(ids)))
    assert one == other
    assert len(set(split_elements(one))) == len(ids)


def test_two_secrets_blind_an_id_differently() -> None:
    assert RingSecret(RUN).blind_ids(["x"]) != RingSecret(RUN).blind_ids(["x"])


def test_an_id_has_another_point_in_another_run() -> None:
    assert hash_to_curve("x", RUN) != hash_to_curve("x", RunId("run-2"))


def test_a_run_name_does_not_run_into_the_id() -> None:
    assert hash_to_curve("bc", RunId("a")) != hash_to_curve("c", RunId("ab"))


def test_a_hash_on_the_twist_is_hashed_again() -> None:
    ids = [f"patient-{number}" for number in range(200)]
    on_twist = [sample_id for sample_id in ids if not is_on_curve(_first_hash(sample_id))]
    assert 50 < len(on_twist) < 150
    for sample_id in ids:
        u = _u(hash_to_curve(sample_id, RUN))
        assert is_on_curve(u)
        assert (u == _first_hash(sample_id)) == (sample_id not in on_twist)


def test_a_small_order_hash_is_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_id = next(s for s in map(str, range(100)) if is_on_curve(_first_hash(s)))
    monkeypatch.setattr(curve, "SMALL_ORDER_U", SMALL_ORDER_U | {_first_hash(sample_id)})
    assert _u(hash_to_curve(sample_id, RUN)) != _first_hash(sample_id)


def test_a_multiple_of_a_point_stays_on_the_curve() -> None:
    points = RingSecret(RUN).blind_ids([f"patient-{number}" for number in range(50)])
    assert all(is_on_curve(_u(point)) for point in split_elements(points))


def test_the_curve_test_tells_curve_from_twist() -> None:
    base_point, on_twist, order_two = 9, 2, 0
    assert is_on_curve(base_point)
    assert not is_on_curve(on_twist)
    assert is_on_curve(order_two)


@pytest.mark.parametrize("u", sorted(SMALL_ORDER_U))
def test_a_point_of_small_order_is_refused(u: int) -> None:
    assert is_on_curve(u)
    with pytest.raises(ValueError, match="shared key"):
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(_point(u)))
    with pytest.raises(InvalidInput, match="small order"):
        RingSecret(RUN).raise_elements(_point(u))


@pytest.mark.parametrize("u", [2, PRIME - 1])
def test_a_point_of_the_twist_is_refused(u: int) -> None:
    with pytest.raises(InvalidInput, match="not on the curve"):
        RingSecret(RUN).raise_elements(_point(u))


@pytest.mark.parametrize(
    "element", [_point(PRIME), _point(PRIME + 9), _point(9 + 2**255), bytes(31), _point(9) + b"\0"]
)
def test_an_encoding_that_is_not_canonical_is_refused(element: bytes) -> None:
    with pytest.raises(InvalidInput, match="canonical"):
        RingSecret(RUN).raise_elements(element)


def test_the_secret_is_not_in_the_repr() -> None:
    secret = RingSecret(RUN)
    assert "object at" in repr(secret)
    assert not hasattr(secret, "__dict__")
