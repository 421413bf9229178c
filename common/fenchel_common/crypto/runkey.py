"""The key of a run as far as the server knows it: a Paillier public key, masks without a public key, or none."""

from dataclasses import dataclass
from typing import Self

from fenchel_common.crypto.packing import VectorFormat, slot_layout
from fenchel_common.crypto.paillier import PublicKey
from fenchel_common.privacy import Privacy


@dataclass(frozen=True, slots=True)
class RunKey:
    """How vectors are hidden: by a Paillier key, by masks, or not at all.

    Blocks have the size of those under a Paillier key of `bits` bits in every case, so that runs of one seed give the
    same numbers with every cipher.

    Attributes
    ----------
    public
        The Paillier key that encrypts vectors; None if they are masked or in clear.
    """

    bits: int
    public: PublicKey | None = None
    masked: bool = False

    def __post_init__(self) -> None:
        assert self.public is None or self.public.bits == self.bits, "a key has the bits of its modulus"
        assert self.public is None or not self.masked, "vectors are hidden in one way"

    @classmethod
    def of(cls, public: PublicKey) -> Self:
        return cls(public.bits, public)

    @classmethod
    def in_clear(cls, bits: int) -> Self:
        return cls(bits)

    @classmethod
    def of_masks(cls, bits: int) -> Self:
        return cls(bits, masked=True)

    @property
    def hides(self) -> bool:
        """Whether vectors under this key are hidden from the server."""
        return self.public is not None or self.masked

    def slots(self, vector_format: VectorFormat) -> int:
        """The number of values of this format in a block."""
        return slot_layout(vector_format, self.bits).slots

    def by_feature(self, privacy: Privacy) -> "RunKey":
        """The key of HyFDCA's vectors by feature and vectors of numbers in a run of that level."""
        return self if privacy.encrypts_features else RunKey.in_clear(self.bits)
