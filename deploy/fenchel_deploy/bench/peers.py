"""Other packages that encrypt numbers homomorphically, behind one interface, for same-run comparisons.

Only `phe` is a dependency. The others are measured where they are installed. Each adapter uses its package as that
package's documentation shows, with one float value per ciphertext unless the package packs by itself.
"""

import importlib
import pickle  # the wire form that fate_utils has
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fenchel_common.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Peer:
    """Three operations on a fixed list of values; handles are opaque."""

    name: str
    values_per_call: int
    encrypt: Callable[[Sequence[float]], Any]
    decrypt: Callable[[Any], Sequence[float]]
    add: Callable[[Any, Any], Any]
    bytes_per_value: Callable[[Any], float]
    note: str = ""


def _phe(bits: int) -> Peer:
    from phe import paillier

    public, private = paillier.generate_paillier_keypair(n_length=bits)
    # Values encoded to one precision have the same exponent, which gives phe its fastest addition.
    return Peer(
        name="phe",
        values_per_call=8,
        encrypt=lambda values: [public.encrypt(value, precision=2.0**-32) for value in values],
        decrypt=lambda handles: [private.decrypt(handle) for handle in handles],
        add=lambda left, right: [a + b for a, b in zip(left, right, strict=True)],
        bytes_per_value=lambda _: public.nsquare.bit_length() / 8,
        note="one value a ciphertext",
    )


def _sf_heu(bits: int) -> Peer:
    phe = importlib.import_module("heu.phe")

    kit = phe.setup(phe.SchemaType.ZPaillier, bits)
    encoder = kit.float_encoder(2**32)
    encryptor, decryptor, evaluator = kit.encryptor(), kit.decryptor(), kit.evaluator()
    return Peer(
        name="sf-heu",
        values_per_call=16,
        encrypt=lambda values: [encryptor.encrypt(encoder.encode(value)) for value in values],
        decrypt=lambda handles: [encoder.decode(decryptor.decrypt(handle)) for handle in handles],
        add=lambda left, right: [evaluator.add(a, b) for a, b in zip(left, right, strict=True)],
        bytes_per_value=lambda handles: sum(len(handle.serialize()) for handle in handles) / len(handles),
        note="ZPaillier (DJN), one value a ciphertext",
    )


def _fate_utils(bits: int) -> Peer:
    module = importlib.import_module("fate_utils.paillier")

    private, public, coder = module.keygen(bits)
    slots = (bits - 2) // 64
    count = 4 * slots

    def encrypt(values: Sequence[float]) -> Any:
        # Its packing takes non-negative numbers only.
        return public.encrypt_encoded(coder.pack_floats(np.abs(values), 64, slots, 32), True)

    def decrypt(handle: Any) -> Sequence[float]:
        unpacked: Sequence[float] = coder.unpack_floats(private.decrypt_to_encoded(handle), 64, slots, 32, count)
        return unpacked

    return Peer(
        name="fate_utils",
        values_per_call=count,
        encrypt=encrypt,
        decrypt=decrypt,
        add=lambda left, right: left.add(public, right),
        bytes_per_value=lambda handle: len(pickle.dumps(handle)) / count,
        note="packed, non-negative values",
    )


def _tenseal(_bits: int) -> Peer:
    ts = importlib.import_module("tenseal")

    context = ts.context(ts.SCHEME_TYPE.CKKS, poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
    context.global_scale = 2**40
    return Peer(
        name="tenseal",
        values_per_call=4096,
        encrypt=lambda values: ts.ckks_vector(context, list(values)),
        decrypt=lambda handle: handle.decrypt(),
        add=lambda left, right: left + right,
        bytes_per_value=lambda handle: len(handle.serialize()) / 4096,
        note="CKKS, approximate, full vectors of 4096",
    )


def _lightphe(bits: int) -> Peer:
    module = importlib.import_module("lightphe")

    scheme = module.LightPHE(algorithm_name="Paillier", key_size=bits)
    return Peer(
        name="lightphe",
        values_per_call=1,
        encrypt=lambda values: [scheme.encrypt(plaintext=round(value * 2**32) % 2**64) for value in values],
        decrypt=lambda handles: [scheme.decrypt(handle) / 2**32 for handle in handles],
        add=lambda left, right: [a + b for a, b in zip(left, right, strict=True)],
        bytes_per_value=lambda handles: sum(handle.value.bit_length() for handle in handles) / 8 / len(handles),
        note="one integer a ciphertext",
    )


PEERS: dict[str, Callable[[int], Peer]] = {
    "phe": _phe,
    "sf-heu": _sf_heu,
    "fate_utils": _fate_utils,
    "tenseal": _tenseal,
    "lightphe": _lightphe,
}


def load_peer(name: str, bits: int) -> Peer | None:
    """The peer with a fresh key, or None where its package is not installed."""
    if name not in PEERS:
        raise InvalidInput(f"--peers: there is no peer {name!r}; choose from {', '.join(PEERS)}")
    try:
        return PEERS[name](bits)
    except ImportError:
        return None
