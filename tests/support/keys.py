"""Keys for all tests, because making one takes a noticeable part of a second."""

from functools import lru_cache

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.stamps import Pads
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.tags import Tagger

SMALL_BITS = 256
WEIGHTS_KEY = bytes(range(96, 128))
PADS_KEY = bytes(range(160, 192))
"""The keys of the weights and pads of all tags of tests."""
MASKS = RunKey.of_masks(2048)


def private_key(bits: int = 2048, kind: KeyKind = KeyKind.STANDARD) -> PrivateKey:
    """The one key of that size and kind."""
    return _made_once(bits, kind).key


def cipher(bits: int = 2048, kind: KeyKind = KeyKind.STANDARD) -> PaillierCipher:
    """A cipher under that key."""
    return _made_once(bits, kind)


@lru_cache(maxsize=16)
def tags(bits: int = 2048) -> BlockTags:
    """The tags of blocks of all formats, under keys of that size."""
    slots = slot_layout(VectorFormat(slot_bits=32), bits).slots
    return BlockTags(Tagger(WEIGHTS_KEY, slots=slots), Pads(PADS_KEY))


def run_key(bits: int = 2048) -> RunKey:
    """The run key of vectors by sample in a run with that key."""
    return RunKey.of(private_key(bits).public_key)


@lru_cache(maxsize=16)
def _made_once(bits: int, kind: KeyKind) -> PaillierCipher:
    key = generate_private_key(bits, kind, test_only_small=bits < 2048)
    return PaillierCipher(key, ObfuscatorPool(key), tags(bits))
