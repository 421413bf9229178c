"""The cost of encrypted vectors on this machine, beside `phe` in the same run.

Every round times each operation once for each package, one after another, as CPU time of this process on one thread.
Reported times are medians over the rounds, and a ratio is the median of the rounds' own ratios. Machines drift by tens
of per cent within minutes; ratios from one run do not. Masks need no nonces: `encrypt` and `encrypt_online` are the
same operation of theirs.

`fenchel_deploy.bench.additions` times what a server does with a long answer, on one core and on all.
"""

import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fenchel_client.crypto.blocktags import BlockTags
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.keygen import generate_private_key
from fenchel_client.crypto.keys import KeyKind, PrivateKey
from fenchel_client.crypto.masks import MaskCipher, MaskKeys
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.stamps import Origin, Place, Stamp, number_places
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.records import Moment
from fenchel_common.wire.vectors import vector_to_bytes
from fenchel_deploy.bench.additions import Additions
from fenchel_deploy.bench.peers import Peer

OPERATIONS = ("encrypt", "decrypt", "add")
KEY_BYTES = 32
LIMIT_REPEATS = 400
BENCH, RUN = ClientId("bench"), RunId("bench")
STANDARD, SUBGROUP, MASKS = OURS = ("standard", "subgroup", "masks")
MASKED_VALUES = 30_000
"""The least length of masked vectors: with a short one, the call itself would cost more than its values."""


@dataclass(slots=True)
class Timings:
    """CPU microseconds a value, by operation, one entry a round."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def measuring(self, operation: str, values: int) -> Iterator[None]:
        start = time.process_time()
        yield
        self.samples.setdefault(operation, []).append((time.process_time() - start) / values * 1e6)

    def median(self, operation: str) -> float:
        return statistics.median(self.samples[operation])

    def ratio_to(self, other: "Timings", operation: str, other_operation: str) -> float:
        """How many times faster than `other`: the median of the rounds' ratios."""
        pairs = zip(other.samples[other_operation], self.samples[operation], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)


@dataclass(frozen=True, slots=True)
class Ours:
    """One of our ciphers, and its measured times.

    `slots` is the size of a block, `fill` makes nonces for so many blocks ahead, and vectors that are timed have at
    least `least_values` values.
    """

    cipher: Cipher
    vector_format: VectorFormat
    slots: int
    fill: Callable[[int], object]
    least_values: int = 1
    timings: Timings = field(default_factory=Timings)

    def encrypted(self, values: NDArray[np.float64], origin: Origin) -> Vector:
        return self.cipher.encrypt(values, self.vector_format, origin=origin, places=self.places(values))

    def places(self, values: NDArray[np.float64]) -> list[Place]:
        return number_places(-(-values.size // self.slots))

    def measure(self, values: NDArray[np.float64]) -> None:
        values = self.resized(values)
        cipher, timings, count = self.cipher, self.timings, values.size
        origins = [fresh_origin(), fresh_origin()]
        with timings.measuring("encrypt", count):
            first = self.encrypted(values, origins[0])
        self.fill(first.block_count)
        with timings.measuring("encrypt_online", count):
            second = self.encrypted(values, origins[1])
        with timings.measuring("add", count):
            summed = first.plus(second)
        with timings.measuring("decrypt", count):
            places = self.places(values)
            decrypted = cipher.decrypt(summed, origins=[origins] * len(places), places=places)
        if np.abs(decrypted - 2 * values).max() > self.vector_format.error_bound(2):
            raise AssertionError("a decrypted sum is not what was encrypted")

    def resized(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values, repeated until there are enough of them."""
        return np.resize(values, max(values.size, self.least_values))

    def times(self, values: NDArray[np.float64]) -> dict[str, float]:
        values = self.resized(values)
        blob = vector_to_bytes(self.encrypted(values, fresh_origin()))
        names = ("encrypt", "encrypt_online", "decrypt", "add")
        return {f"{name}_us": self.timings.median(name) for name in names} | {
            "bytes_per_value": len(blob) / values.size
        }


def paillier(key: PrivateKey, slot_bits: int) -> Ours:
    vector_format, pool = VectorFormat(slot_bits=slot_bits), ObfuscatorPool(key)
    slots = slot_layout(vector_format, key.public_key.bits).slots
    tags = BlockTags.of(secrets.token_bytes(KEY_BYTES), RUN, slots=slots)
    return Ours(PaillierCipher(key, pool, tags, threads=1), vector_format, slots, pool.fill)


def masks(bits: int, slot_bits: int) -> Ours:
    """Masks that everybody takes off with one key, in blocks as large as under a Paillier key of `bits` bits."""
    vector_format, secret = VectorFormat(slot_bits=slot_bits), secrets.token_bytes(KEY_BYTES)
    keys = MaskKeys(BENCH, clients=(BENCH,), groups={(): secret}, pairs={})
    slots = slot_layout(vector_format, bits).slots
    tags = BlockTags.of(secret, RUN, slots=slots)
    cipher = MaskCipher(keys, RUN, key_bits=bits, tags=tags)
    return Ours(cipher, vector_format, slots, lambda _: None, least_values=MASKED_VALUES)


def fresh_origin() -> Origin:
    return Origin(Stamp.fresh(BENCH, Moment(1, RoundId(1), "bench"), bytes(KEY_BYTES)), "values")


def run(
    *, bits: int, value_count: int, slot_bits: int, rounds: int, peers: list[Peer], advance: Callable[[str], None]
) -> dict[str, Any]:
    """Measures, and returns the report. Calls `advance` with the name of each step, `steps` times in all."""
    if value_count < 1:
        raise InvalidInput(f"--values: at least one value is needed, not {value_count}")
    values = np.random.default_rng(0).uniform(-1000.0, 1000.0, value_count)
    advance("making keys")
    key = generate_private_key(bits, KeyKind.STANDARD)
    sides = {
        STANDARD: paillier(key, slot_bits),
        SUBGROUP: paillier(generate_private_key(bits, KeyKind.SUBGROUP), slot_bits),
        MASKS: masks(bits, slot_bits),
    }
    peer_timings = {peer.name: Timings() for peer in peers}
    peer_bytes: dict[str, float] = {}
    limits, additions = Timings(), Additions(key.public_key)
    for round_number in range(1, rounds + 1):
        for name, side in sides.items():
            side.measure(values)
            advance(f"round {round_number}: ours, {name}")
        for peer in peers:
            peer_bytes[peer.name] = _measure_peer(peer, peer_timings[peer.name], values)
            advance(f"round {round_number}: {peer.name}")
        _measure_limits(key, limits)
        additions.measure()
    additions.close()
    report = _report(sides, values, peer_timings, peer_bytes, limits)
    return {"bits": bits, **report, "additions": additions.report()}


def steps(rounds: int, peer_count: int) -> int:
    return 1 + rounds * (len(OURS) + peer_count)


def _measure_peer(peer: Peer, timings: Timings, values: NDArray[np.float64]) -> float:
    chosen = [float(value) for value in np.resize(values, peer.values_per_call)]
    with timings.measuring("encrypt", len(chosen)):
        first = peer.encrypt(chosen)
    second = peer.encrypt(chosen)
    with timings.measuring("add", len(chosen)):
        summed = peer.add(first, second)
    with timings.measuring("decrypt", len(chosen)):
        peer.decrypt(summed)
    return peer.bytes_per_value(first)


def _measure_limits(key: PrivateKey, limits: Timings) -> None:
    """Times the two primitives of Paillier's operations: a product modulo n², and a power modulo p²."""
    n_squared, p = key.public_key.n_squared, key.secret_primes()[0].value
    left, right = n_squared // 3, n_squared // 7
    with limits.measuring("mulmod", LIMIT_REPEATS):
        for _ in range(LIMIT_REPEATS):
            left * right % n_squared
    base, exponent, p_squared = mpz(3) ** 5000 % p**2, p - 1, p**2
    with limits.measuring("half_powm", 3):
        for _ in range(3):
            gmpy2.powmod(base, exponent, p_squared)


def _report(
    sides: dict[str, Ours],
    values: NDArray[np.float64],
    peer_timings: dict[str, Timings],
    peer_bytes: dict[str, float],
    limits: Timings,
) -> dict[str, Any]:
    standard = sides[STANDARD]
    ours = standard.times(values)
    report: dict[str, Any] = {
        "slot_bits": standard.vector_format.slot_bits,
        "slots": standard.slots,
        "values": int(values.size),
        "ours": ours,
        "limit": {f"{name}_us": limits.median(name) for name in ("mulmod", "half_powm")},
        "online_mulmods": ours["encrypt_online_us"] * standard.slots / limits.median("mulmod"),
        "subgroup": {"assumption": "one more than a standard key", **sides[SUBGROUP].times(values)},
        "masks": {"values": sides[MASKS].resized(values).size, **sides[MASKS].times(values)},
    }
    report["peers"] = {}
    for name, timings in peer_timings.items():
        times = {f"{operation}_us": timings.median(operation) for operation in OPERATIONS}
        times["bytes_per_value"] = peer_bytes[name]
        ratio, subgroup_ratio, masks_ratio = (
            _ratios(sides[side], timings) | {"bytes": peer_bytes[name] / report[key]["bytes_per_value"]}
            for side, key in ((STANDARD, "ours"), (SUBGROUP, SUBGROUP), (MASKS, MASKS))
        )
        if name == "phe":
            report |= {"phe": times, "ratio": ratio}
            report[SUBGROUP]["ratio"], report[MASKS]["ratio"] = subgroup_ratio, masks_ratio
        else:
            ratios = {"ratio": ratio, "subgroup_ratio": subgroup_ratio, "masks_ratio": masks_ratio}
            report["peers"][name] = times | ratios
    return report


def _ratios(side: Ours, peer: Timings) -> dict[str, float]:
    ratios = {name: side.timings.ratio_to(peer, name, name) for name in OPERATIONS}
    return ratios | {"encrypt_online": side.timings.ratio_to(peer, "encrypt_online", "encrypt")}
