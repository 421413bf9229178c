"""What ciphertexts show to whoever has only the public key."""

import numpy as np

from fenchel.v1 import vectors_pb2
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.paillier import PublicKey, concatenate
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.wire.vectors import format_to_proto
from fenchel_deploy.attacks.views import PublicEyes
from support import tagged
from support.keys import cipher, private_key


def test_a_ciphertext_without_a_nonce_would_be_read_without_the_key() -> None:
    """`PublicEyes` finds values in ciphertexts without a nonce, and differences of two with the same nonce."""
    key, values = private_key().public_key, np.array([0.5, -1.25, 3.0])
    eyes = PublicEyes(RunKey.of(key))
    assert np.array_equal(eyes.read(_without_nonce(values, key)), values)
    first, second = _with_one_nonce(values, np.array([1.0, 1.0, -4.0]), key)
    assert not np.allclose(eyes.read(first), values)
    assert np.array_equal(eyes.difference(first, second), np.array([-0.5, -2.25, 7.0]))


def test_ciphertexts_of_this_project_are_not_read_without_the_key() -> None:
    key, values = private_key().public_key, np.array([0.5, -1.25, 3.0])
    encrypted = tagged.encrypted(cipher(), values, PRODUCT_FORMAT)
    assert isinstance(encrypted, EncryptedVector)
    message = vectors_pb2.Vector(
        encrypted=vectors_pb2.EncryptedVector(
            format=format_to_proto(PRODUCT_FORMAT), length=3, terms=1, ciphertexts=encrypted.ciphertexts
        )
    )
    assert np.abs(PublicEyes(RunKey.of(key)).read(message) - values).max() > 1.0


def _without_nonce(values: np.ndarray[tuple[int], np.dtype[np.float64]], key: PublicKey) -> vectors_pb2.Vector:
    first, _ = _with_one_nonce(values, values, key, nonce=1)
    return first


def _with_one_nonce(
    one: np.ndarray[tuple[int], np.dtype[np.float64]],
    other: np.ndarray[tuple[int], np.dtype[np.float64]],
    key: PublicKey,
    *,
    nonce: int = 12345,
) -> tuple[vectors_pb2.Vector, vectors_pb2.Vector]:
    """Textbook Paillier, (1 + m·n)·r^n mod n², with the same r for both."""
    layout = slot_layout(PRODUCT_FORMAT, key.bits)
    blinding = pow(nonce, int(key.n), int(key.n_squared))
    made = []
    for values in (one, other):
        grid = layout.grid(PRODUCT_FORMAT.quantise(values))
        numbers = [(1 + m * key.n) * blinding % key.n_squared for m in layout.pack(grid, [7] * len(grid))]
        encrypted = vectors_pb2.EncryptedVector(
            format=format_to_proto(PRODUCT_FORMAT),
            length=len(values),
            terms=1,
            key_fingerprint=key.fingerprint,
            ciphertexts=concatenate(numbers, key.ciphertext_bytes),
        )
        made.append(vectors_pb2.Vector(encrypted=encrypted))
    return made[0], made[1]
