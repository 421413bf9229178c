"""A whole HyFDCA federation in one process, deterministic by its seed, and in clear unless it is given a key."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.base import AlgorithmClient
from fenchel_client.algorithms.corrective.classes import ClassesClient
from fenchel_client.algorithms.corrective.client import CorrectiveClient
from fenchel_client.algorithms.hyfdca.client import HyfdcaClient
from fenchel_client.algorithms.partial.client import PartialClient
from fenchel_client.algorithms.partial.continued import whole_run_half
from fenchel_client.crypto.cipher import PaillierCipher
from fenchel_client.crypto.plain import Cipher
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.crypto.paillier import split
from fenchel_common.crypto.vectors import EncryptedVector, Vector
from fenchel_common.crypto.words import PlainVector
from fenchel_common.data.shard import Shard
from fenchel_server.algorithms.corrective.server import CorrectiveServer
from fenchel_server.algorithms.hyfdca.server import HyfdcaServer
from fenchel_server.algorithms.partial.continued import WholeRunServer
from fenchel_server.algorithms.partial.server import PartialServer
from fenchel_server.contract import RoundReport, ServerState
from support.halves import Halves

Array = NDArray[np.float64]


def corrective_half(settings: CorrectiveSettings, **values: Any) -> AlgorithmClient:
    """A client half that has corrective rounds to the end of the run."""
    return (ClassesClient if settings.classes else CorrectiveClient)(settings, **values)


CLIENTS: Final[Mapping[str, Any]] = {"hyfdca": HyfdcaClient, "corrective": corrective_half, "partial": PartialClient}
SERVERS: Final[Mapping[str, Any]] = {"hyfdca": HyfdcaServer, "corrective": CorrectiveServer, "partial": PartialServer}
"""Halves by the name of the family; those of corrective steps do not go on with rounds of pairs (`WholeRun`)."""


class Simulation(
    Halves[HyfdcaClient | CorrectiveClient | PartialClient, HyfdcaServer | CorrectiveServer | PartialServer]
):
    """Clients and server of a run of HyFDCA."""

    client_halves: ClassVar[Mapping[str, Any]] = CLIENTS
    server_halves: ClassVar[Mapping[str, Any]] = SERVERS

    @classmethod
    def of(cls, shards: Sequence[Shard], settings: AlgorithmSettings, **values: Any) -> Self:
        family = settings.family.name
        return cls(
            shards, settings, client_half=cls.client_halves[family], server_half=cls.server_halves[family], **values
        )

    def run(self, rounds: int | None = None) -> RoundReport:
        """Runs rounds until the algorithm stops, or at most the given number."""
        while True:
            report = self.round()
            if report.outcome is not None or (rounds is not None and len(self.reports) >= rounds):
                return report

    def restore(self, snapshot: ServerState, *, seed: int | None = None) -> None:
        """Replaces the server by one made from a snapshot, which works in a new attempt.

        Another seed is for draws that differ from those of the old server.
        """
        settings = self.settings if seed is None else self.settings.model_copy(update={"seed": seed})
        self.attempt += 1
        self.server = self.server_halves[settings.family.name].restore(
            snapshot, settings=settings, layout=self.alignment.federation, key=self.key
        )

    def round_trips(self, round_id: int) -> int:
        return sum(of == round_id for of, _phase in self.phases)

    def model(self) -> Array:
        """The weights by sorted names of all features."""
        return self.weights(self.alignment.federation.features)

    def alpha(self, ids: Sequence[str]) -> Array:
        """The server's α, which it could not read in an encrypted run, in the order of these samples."""
        assert not isinstance(self.server, PartialServer), "α follows from the records of such a run"
        alpha = (
            self.server._states[0].anchor.alpha.parts()
            if isinstance(self.server, CorrectiveServer)
            else self.server._state.alpha
        )
        values: dict[str, float] = {}
        for client, layout in self.alignment.clients.items():
            for block in layout.block_ids:
                vector = alpha.get(int(block))
                rows = layout.rows_of([int(block)])
                decrypted = (
                    np.zeros(len(rows)) if vector is None else read_unchecked(self.ciphers[client], vector)[: len(rows)]
                )
                values |= {self.shards[client].ids[row]: value for row, value in zip(rows, decrypted, strict=True)}
        return np.array([values[sample] for sample in ids])


class WholeRun(Simulation):
    """A run of all parties as users have it, with rounds of pairs once parties have come and gone."""

    client_halves: ClassVar[Mapping[str, Any]] = {"corrective": whole_run_half}
    server_halves: ClassVar[Mapping[str, Any]] = {"corrective": WholeRunServer}

    @property
    def goes_on_with_pairs(self) -> bool:
        assert isinstance(self.server, WholeRunServer)
        return self.server._pairs is not None


def read_unchecked(cipher: Cipher, vector: Vector) -> Array:
    """The values of a vector, whatever its tags are: no party reads like this."""
    if isinstance(vector, PlainVector):
        return vector.format.dequantise(vector.integers)
    assert isinstance(vector, EncryptedVector)
    assert isinstance(cipher, PaillierCipher)
    numbers = split(vector.ciphertexts, vector.key.ciphertext_bytes)
    grid, _tags = vector.layout.unpack(cipher.key.raw_decrypt(numbers, threads=1))
    return vector.format.dequantise(grid.reshape(-1)[: vector.length].copy())
