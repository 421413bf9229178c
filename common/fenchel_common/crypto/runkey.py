"""The key of a run: a Paillier public key, or none."""

from dataclasses import dataclass
from typing import Self

from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.privacy import Privacy


@dataclass(frozen=True, slots=True)
class RunKey:
    """A Paillier public key, or none; without one, vectors are in clear and as large as under a key of `bits` bits.

    Blocks have the same size either way, so that a run in clear and an encrypted run of one seed give the same numbers.

    Attributes
    ----------
    public
        The key that encrypts vectors; None if vectors are in clear.
    """

    bits: int
    public: PublicKey | None = None

    def __post_init__(self) -> None:
        assert self.public is None or self.public.bits == self.bits, "a key has the bits of its modulus"

    @classmethod
    def of(cls, public: PublicKey) -> Self:
        return cls(public.bits, public)

    @classmethod
    def in_clear(cls, bits: int) -> Self:
        return cls(bits)

    def slots(self, vector_format: VectorFormat) -> int:
        """The number of values of this format in a block."""
        return slot_layout(vector_format, self.bits).slots

    def by_feature(self, privacy: Privacy) -> "RunKey":
        """The key of HyFDCA's vectors by feature and vectors of numbers in a run of that level."""
        return self if privacy.encrypts_features else RunKey.in_clear(self.bits)
