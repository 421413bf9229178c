"""What the vectors of a run are under: a public key, or nothing."""

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
        What vectors are encrypted with; None if they are in clear.
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
        """How many values of this format a block has."""
        return slot_layout(vector_format, self.bits).slots

    def by_feature(self, privacy: Privacy) -> "RunKey":
        """What HyFDCA's vectors by feature, and its figures, are under in a run of that level."""
        return self if privacy.encrypts_features else RunKey.in_clear(self.bits)
