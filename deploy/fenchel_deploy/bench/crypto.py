"""The cost of encrypted vectors on this machine, beside `phe` in the same run.

Every round times each operation once for each package, one after another, as CPU time of this process on one thread.
Reported times are medians over the rounds, and a ratio is the median of the rounds' own ratios. Machines drift by tens
of per cent within minutes; ratios from one run do not.
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
from fenchel_client.crypto.keys import KeyKind
from fenchel_client.crypto.obfuscators import ObfuscatorPool
from fenchel_client.crypto.stamps import Origin, Place, Stamp, number_places
from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.vectors import EncryptedVector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId, RoundId, RunId
from fenchel_common.records import Moment
from fenchel_common.wire.vectors import vector_to_bytes
from fenchel_deploy.bench.peers import Peer

OPERATIONS = ("encrypt", "decrypt", "add")
KEY_BYTES = 32
LIMIT_REPEATS = 400


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
    """One of our keys, and its measured times."""

    cipher: PaillierCipher
    timings: Timings
    vector_format: VectorFormat

    def encrypted(self, values: NDArray[np.float64], origin: Origin) -> EncryptedVector:
        return self.cipher.encrypt(values, self.vector_format, origin=origin, places=self.places(values))

    def places(self, values: NDArray[np.float64]) -> list[Place]:
        return number_places(-(-values.size // self.cipher.slots_of(self.vector_format)))

    def measure(self, values: NDArray[np.float64]) -> None:
        cipher, timings, count = self.cipher, self.timings, values.size
        origins = [fresh_origin(), fresh_origin()]
        with timings.measuring("encrypt", count):
            first = self.encrypted(values, origins[0])
        cipher.pool.fill(first.block_count)
        with timings.measuring("encrypt_online", count):
            second = self.encrypted(values, origins[1])
        with timings.measuring("add", count):
            summed = first.plus(second)
        with timings.measuring("decrypt", count):
            places = self.places(values)
            decrypted = cipher.decrypt(summed, origins=[origins] * len(places), places=places)
        if np.abs(decrypted - 2 * values).max() > self.vector_format.error_bound(2):
            raise AssertionError("a decrypted sum is not what was encrypted")

    def times(self, values: NDArray[np.float64]) -> dict[str, float]:
        blob = vector_to_bytes(self.encrypted(values, fresh_origin()))
        names = ("encrypt", "encrypt_online", "decrypt", "add")
        return {f"{name}_us": self.timings.median(name) for name in names} | {
            "bytes_per_value": len(blob) / values.size
        }


def make_ours(bits: int, kind: KeyKind, slot_bits: int) -> Ours:
    key = generate_private_key(bits, kind)
    vector_format = VectorFormat(slot_bits=slot_bits)
    tags = BlockTags.of(secrets.token_bytes(KEY_BYTES), RunId("bench"), slots=slot_layout(vector_format, bits).slots)
    cipher = PaillierCipher(key, ObfuscatorPool(key), tags, threads=1)
    return Ours(cipher, Timings(), vector_format)


def fresh_origin() -> Origin:
    return Origin(Stamp.fresh(ClientId("bench"), Moment(1, RoundId(1), "bench"), bytes(KEY_BYTES)), "values")


def run(
    *, bits: int, value_count: int, slot_bits: int, rounds: int, peers: list[Peer], advance: Callable[[str], None]
) -> dict[str, Any]:
    """Measures, and returns the report. Calls `advance` with the name of each step, `steps` times in all."""
    if value_count < 1:
        raise InvalidInput(f"--values: at least one value is needed, not {value_count}")
    values = np.random.default_rng(0).uniform(-1000.0, 1000.0, value_count)
    advance("making keys")
    sides = {kind: make_ours(bits, kind, slot_bits) for kind in KeyKind}
    peer_timings = {peer.name: Timings() for peer in peers}
    peer_bytes: dict[str, float] = {}
    limits = Timings()
    for round_number in range(1, rounds + 1):
        for kind, side in sides.items():
            side.measure(values)
            advance(f"round {round_number}: ours, {kind} key")
        for peer in peers:
            peer_bytes[peer.name] = _measure_peer(peer, peer_timings[peer.name], values)
            advance(f"round {round_number}: {peer.name}")
        _measure_limits(sides[KeyKind.STANDARD], limits)
    return _report(sides, values, peer_timings, peer_bytes, limits)


def steps(rounds: int, peer_count: int) -> int:
    return 1 + rounds * (len(KeyKind) + peer_count)


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


def _measure_limits(side: Ours, limits: Timings) -> None:
    """Times the two primitives of all operations: a product modulo n², and a power modulo p²."""
    key = side.cipher.key
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
    sides: dict[KeyKind, Ours],
    values: NDArray[np.float64],
    peer_timings: dict[str, Timings],
    peer_bytes: dict[str, float],
    limits: Timings,
) -> dict[str, Any]:
    standard = sides[KeyKind.STANDARD]
    slots = standard.cipher.slots_of(standard.vector_format)
    ours = standard.times(values)
    report: dict[str, Any] = {
        "bits": standard.cipher.key.public_key.bits,
        "slot_bits": standard.vector_format.slot_bits,
        "slots": slots,
        "values": int(values.size),
        "ours": ours,
        "limit": {f"{name}_us": limits.median(name) for name in ("mulmod", "half_powm")},
        "online_mulmods": ours["encrypt_online_us"] * slots / limits.median("mulmod"),
        "subgroup": {"assumption": "one more than a standard key", **sides[KeyKind.SUBGROUP].times(values)},
    }
    report["peers"] = {}
    for name, timings in peer_timings.items():
        times = {f"{operation}_us": timings.median(operation) for operation in OPERATIONS}
        times["bytes_per_value"] = peer_bytes[name]
        ratio = _ratios(standard, timings) | {"bytes": peer_bytes[name] / ours["bytes_per_value"]}
        subgroup_ratio = _ratios(sides[KeyKind.SUBGROUP], timings)
        if name == "phe":
            report |= {"phe": times, "ratio": ratio}
            report["subgroup"]["ratio"] = subgroup_ratio
        else:
            report["peers"][name] = times | {"ratio": ratio, "subgroup_ratio": subgroup_ratio}
    return report


def _ratios(side: Ours, peer: Timings) -> dict[str, float]:
    ratios = {name: side.timings.ratio_to(peer, name, name) for name in OPERATIONS}
    return ratios | {"encrypt_online": side.timings.ratio_to(peer, "encrypt_online", "encrypt")}
