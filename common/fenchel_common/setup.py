"""What the parties and the server agree on before the first round, and what they part with after the last.

introduce    RunTerms          → Introduction    every party
key_make     certificates      → KeyMade         the key holder
key_take     KeyTake           → KeyTaken        every other party
align_…      (see wire/alignment)                every party
layout       ClientLayout      → the algorithm's opening
…rounds…
finish       ModelPart         → ModelRelease, empty unless the roster releases the model to the server
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fenchel_common.ids import ClientId

INTRODUCE = "introduce"
KEY_MAKE = "key_make"
KEY_TAKE = "key_take"
LAYOUT = "layout"
FINISH = "finish"

MAX_WRAPPED_BYTES = 96 * 1024
"""What the run's secrets, sealed for one party, may take."""


@dataclass(frozen=True, slots=True)
class KeyMade:
    """The key holder's public key and, for each other party, the sealed secrets of the run."""

    public_key: bytes
    sealed: Mapping[ClientId, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyTake:
    """One party's sealed secrets, and the public key that they must match."""

    public_key: bytes
    wrapped: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunSecrets:
    """What all parties of a run share and the server must not know."""

    private_key: bytes = field(repr=False)
    alignment_secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelPart:
    """The weights of a party's features, in the order of their names, and the last certificate.

    Where the server cannot read the weights there are none, and `state` is what the party's algorithm makes them of.
    `first_holder_of` are, where noise is due, the party's blocks of features to whose weights it is to add it.
    """

    weights: NDArray[np.float64]
    primal: float | None
    dual: float | None
    gap: float | None
    state: bytes = field(default=b"", repr=False)
    first_holder_of: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that a party spent on a task, and the most memory that its process has held so far (0: unknown)."""

    encrypt_s: float = 0.0
    decrypt_s: float = 0.0
    compute_s: float = 0.0
    serialise_s: float = 0.0
    peak_memory_bytes: int = 0

    @property
    def total_s(self) -> float:
        return self.encrypt_s + self.decrypt_s + self.compute_s + self.serialise_s
