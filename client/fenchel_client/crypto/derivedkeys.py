"""Keys for single purposes, which every party of a run derives from the run's tag secret and the server cannot.

    key = HKDF-SHA256(tag secret, info = the purpose's label ‖ run), 32 bytes

Two keys of the alignment are made in the same way of a secret that two parties alone have.

Each purpose has a label of its own, so what is made under one key says nothing about another.
"""

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fenchel_common.ids import RunId

NAMES_LABEL = b"fenchel/v1/tag-secret/names\x00"
SEALED_NAMES_LABEL = b"fenchel/v1/tag-secret/sealed-names\x00"
VOCABULARY_LABEL = b"fenchel/v1/tag-secret/vocabulary\x00"
RING_LABEL = b"fenchel/v1/tag-secret/ring\x00"
WEIGHTS_LABEL = b"fenchel/v1/tag-secret/weights\x00"
PADS_LABEL = b"fenchel/v1/tag-secret/pads\x00"
CONFIRMATIONS_LABEL = b"fenchel/v1/tag-secret/confirmations\x00"
MASKS_LABEL = b"fenchel/v1/tag-secret/masks\x00"
BLINDING_TAG_LABEL = b"fenchel/v1/pair-secret/blinding-tag\x00"
BLINDING_SEAL_LABEL = b"fenchel/v1/pair-secret/blinding-seal\x00"
SEED_LABEL = b"fenchel/v1/tag-secret/seed\x00"

_KEY_BYTES = 32


def names_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key of the pseudonyms of feature names."""
    return _derived(tag_secret, NAMES_LABEL, run)


def sealed_names_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key under which parties seal the names of their features for each other."""
    return _derived(tag_secret, SEALED_NAMES_LABEL, run)


def vocabulary_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key under which parties seal their vocabularies for each other."""
    return _derived(tag_secret, VOCABULARY_LABEL, run)


def ring_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key of the tags that the lists of the alignment carry."""
    return _derived(tag_secret, RING_LABEL, run)


def weights_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key of the weights with which tags of vectors are made."""
    return _derived(tag_secret, WEIGHTS_LABEL, run)


def pads_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key of the pads that hide tags of vectors."""
    return _derived(tag_secret, PADS_LABEL, run)


def confirmations_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key with which parties confirm the records of a run."""
    return _derived(tag_secret, CONFIRMATIONS_LABEL, run)


def everybody_key(tag_secret: bytes, run: RunId) -> bytes:
    """The key of the masks of what every party may open."""
    return _derived(tag_secret, MASKS_LABEL, run)


def blinding_tag_key(pair_secret: bytes, run: RunId) -> bytes:
    """The key of the tags of pieces that one party makes and another one works on next; from a secret of these two."""
    return _derived(pair_secret, BLINDING_TAG_LABEL, run)


def blinding_seal_key(pair_secret: bytes, run: RunId) -> bytes:
    """The key under which an owner seals its list for the last blinding party; from a secret of these two."""
    return _derived(pair_secret, BLINDING_SEAL_LABEL, run)


def seed_of(tag_secret: bytes, run: RunId, first_view: bytes) -> int:
    """The seed of a run whose terms name none: a number below 2^63 that the server cannot choose."""
    return int.from_bytes(_derived(tag_secret, SEED_LABEL + first_view, run)[:8], "big") >> 1


def _derived(secret: bytes, label: bytes, run: RunId) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=None, info=label + run.encode()).derive(secret)
