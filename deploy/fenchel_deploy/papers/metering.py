"""A federation in one process whose work is timed party by party, as if every party had a computer of its own.

Times are CPU seconds of one core, so they do not depend on what else the machine does. In each phase of a round the
slowest party counts, as in the HyFDCA paper's simulation, and then the server.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.stamps import Origin, Place
from fenchel_common.algorithms.dual import INNER_PRODUCT, LOCAL_DUAL
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_deploy.inprocess.halves import Halves
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import PhaseRequest, RoundReport

Array = NDArray[np.float64]
Clock = Callable[[], float]


@dataclass(slots=True)
class Spending:
    """What one party spent: CPU seconds in all and in its cipher, values that passed the cipher, bytes of messages."""

    total_s: float = 0.0
    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    encrypted: int = 0
    decrypted: int = 0
    sent: int = 0

    def since(self, before: "Spending") -> "Spending":
        return Spending(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class MeteredCipher:
    """Encrypts and decrypts with `cipher`, and writes down the CPU seconds and the number of values."""

    cipher: Cipher
    spending: Spending
    clock: Clock

    @property
    def slots(self) -> int:
        return self.cipher.slots

    def slots_of(self, vector_format: VectorFormat) -> int:
        return self.cipher.slots_of(vector_format)

    def in_clear(self) -> Cipher:
        # Values in clear are no work of the cipher.
        return self.cipher.in_clear()

    def encrypt(
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        origin: Origin,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Vector:
        began = self.clock()
        vector = self.cipher.encrypt(values, vector_format, origin=origin, places=places, among=among)
        self.spending.encrypt_s += self.clock() - began
        self.spending.encrypted += int(np.size(values))
        return vector

    def decrypt(
        self,
        vector: Vector,
        *,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        began = self.clock()
        values = self.cipher.decrypt(vector, origins=origins, places=places, among=among)
        self.spending.decrypt_s += self.clock() - began
        self.spending.decrypted += int(values.size)
        return values


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round takes if all parties work at the same time.

    Attributes
    ----------
    compute_s, encryption_s
        Of the slowest party of each phase, summed over the phases.
    server_s
        Of the server, mostly additions of ciphertexts.
    trips
        Phases, each of which is one round trip.
    encrypted, decrypted
        Values that the party with the most of them encrypted and decrypted in the round.
    sent_bytes
        Bytes of the messages of the party that sends and receives most.
    """

    compute_s: float
    encryption_s: float
    server_s: float
    trips: float
    encrypted: float
    decrypted: float
    sent_bytes: float

    @classmethod
    def mean(cls, costs: Sequence["RoundCost"]) -> Self:
        """The mean over rounds, of every figure."""
        return cls(*(fmean(getattr(cost, one.name) for cost in costs) for one in fields(cls)))


class MeteredHalves(Halves[Any, Any]):
    """Halves that time every answer of every party and every step of the server."""

    def __init__(self, *args: Any, clock: Clock = time.process_time, **values: Any) -> None:
        self.clock = clock
        self.spending: dict[ClientId, Spending] = {}
        super().__init__(*args, **values)
        self._phases: dict[str, dict[ClientId, Spending]] = {}
        self._server_s = 0.0

    def restart(self, client: ClientId) -> None:
        if client not in self.spending:
            self.spending[client] = Spending()
            # Without a key nothing is encrypted, and the conversion to fixed point is computation.
            if self.key.hides:
                self.ciphers[client] = MeteredCipher(self.ciphers[client], self.spending[client], self.clock)
        super().restart(client)

    def metered_round(self, share: float = 1.0) -> RoundCost:
        """Runs the next round with all parties available, and returns its cost.

        If the shards have this share of the samples of a whole problem, the cost is that of the whole problem: products
        and whatever goes through all rows count 1/share times, the steps on drawn samples and the opening of changed
        dual variables once.
        """
        round_id = RoundId(len(self.reports) + 1)
        self._phases, self._server_s = {}, 0.0
        began = self.clock()
        first = self.server.begin_round(round_id, self.names, frozenset(), attempt=self.attempt)
        self._server_s += self.clock() - began
        watched = _Watched(self.server, self)
        report = run_phases(first, watched, lambda phase, client, body: self.answer(round_id, phase, client, body))
        self.reports.append(report)
        return self._cost(share)

    def answer(self, round_id: RoundId, phase: str, client: ClientId, body: bytes) -> bytes | None:
        own = self.spending[client]
        before, began = replace(own), self.clock()
        result = super().answer(round_id, phase, client, body)
        own.total_s += self.clock() - began
        own.sent += len(body) + len(result or b"")
        self._phases.setdefault(phase, {})[client] = own.since(before)
        return result

    def _cost(self, share: float) -> RoundCost:
        slowest = {
            phase: max(answers.values(), key=lambda spent: spent.total_s) for phase, answers in self._phases.items()
        }
        compute_s = encryption_s = 0.0
        for phase, spent in slowest.items():
            ciphered = spent.encrypt_s + spent.decrypt_s
            encryption_s += ciphered / (share if phase == INNER_PRODUCT else 1.0)
            compute_s += (spent.total_s - ciphered) / (1.0 if phase == LOCAL_DUAL else share)
        by_party: dict[ClientId, list[tuple[float, Spending]]] = {}
        for phase, answers in self._phases.items():
            for client, spent in answers.items():
                by_party.setdefault(client, []).append((share if phase == INNER_PRODUCT else 1.0, spent))
        return RoundCost(
            compute_s=compute_s,
            encryption_s=encryption_s,
            server_s=self._server_s / share,
            trips=len(self._phases),
            encrypted=max(round(sum(spent.encrypted / part for part, spent in own)) for own in by_party.values()),
            decrypted=max(sum(spent.decrypted for _, spent in own) for own in by_party.values()),
            sent_bytes=max(round(sum(spent.sent / part for part, spent in own)) for own in by_party.values()),
        )


@dataclass(frozen=True, slots=True)
class _Watched:
    """A server half whose steps are timed; its next phase begins a new list of answers."""

    server: Any
    run: MeteredHalves

    def advance(self, phase: str, results: Mapping[ClientId, bytes]) -> PhaseRequest | RoundReport:
        began = self.run.clock()
        step: PhaseRequest | RoundReport = self.server.advance(phase, results)
        self.run._server_s += self.run.clock() - began
        return step
