"""The tags of the blocks of messages, by their origins."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.derivedkeys import pads_key, weights_key
from fenchel_client.crypto.stamps import Origin, Pads, Place
from fenchel_common.crypto.tags import PadSum, Tagger
from fenchel_common.ids import RunId


@dataclass(frozen=True, slots=True)
class BlockTags:
    """Makes and checks the tags of blocks, with weights and pads that the same parties can derive."""

    tagger: Tagger
    pads: Pads

    @classmethod
    def of(cls, secret: bytes, run: RunId, *, slots: int) -> "BlockTags":
        """The tags that everybody makes and checks who has the secret."""
        return cls(Tagger(weights_key(secret, run), slots=slots), Pads(pads_key(secret, run)))

    def made(self, grid: NDArray[np.int64], origin: Origin, places: Sequence[Place]) -> list[int]:
        """The tags of the rows of a (B, S) grid, the blocks of a message's field."""
        return self.tagger.tags(grid, self.pads.of(origin, places))

    def expected(self, origins: Sequence[Sequence[Origin]], places: Sequence[Place]) -> list[PadSum]:
        """What the tags of blocks must be made of, each of which is the sum of these origins."""
        return self.pads.sums(origins, places)

    def check(self, grid: NDArray[np.int64], tags: Sequence[int], expected: Sequence[PadSum]) -> None:
        """Raises `TagMismatch` unless the rows of a (B, S) grid are the expected sums."""
        self.tagger.check(grid, tags, expected)
