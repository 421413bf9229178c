"""Makes the vectors of a message under its stamp, and opens sums of vectors of known origin.

Nothing is opened whose origins the party has not named: the sum of exactly these, or a `TagMismatch`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.derivedkeys import weights_key
from fenchel_client.crypto.stamps import Origin, Pads, Stamp
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.tags import Tagger
from fenchel_common.crypto.vectors import Cipher, Vector
from fenchel_common.framing import framed
from fenchel_common.ids import RunId

Array = NDArray[np.float64]


class Seal:
    """Encrypts and opens the vectors of one party in one run.

    Attributes
    ----------
    stamp
        The stamp of the message that is being made; the caller sets a fresh one before each message.
    """

    def __init__(self, pads: Pads) -> None:
        self._pads = pads
        self.stamp: Stamp | None = None

    def close(
        self, values: Array, vector_format: VectorFormat, *, cipher: Cipher, field: str, tokens: Sequence[bytes]
    ) -> Vector:
        """The values as a vector of the message's `field`; `tokens` has one token for each block.

        A message has each block of a field once.
        """
        assert self.stamp is not None, "every message has a stamp"
        return cipher.encrypt(values, vector_format, self._pads.of(Origin(self.stamp, field), tokens))

    def digest(self, content: bytes) -> bytes:
        """A keyed hash of the content and of the view of the message that is being made; equal at all parties."""
        assert self.stamp is not None, "every message has a stamp"
        return self._pads.digest(framed(self.stamp.view, content))

    def open(
        self, vector: Vector, *, cipher: Cipher, origins: Sequence[Sequence[Origin]], tokens: Sequence[bytes]
    ) -> Array:
        """The values of a vector each of whose blocks is the sum of these origins; `TagMismatch` if it is not."""
        return cipher.decrypt(vector, self._pads.sums(origins, tokens))


def run_tagger(tag_secret: bytes, run: RunId, *, slots: int) -> Tagger:
    """The tagger of a run, whose weights follow from the parties' secret."""
    return Tagger(weights_key(tag_secret, run), slots=slots)
