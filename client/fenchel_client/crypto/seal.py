"""Makes the vectors of a message under its stamp, and opens sums of vectors of known origin.

Nothing is opened whose origins the party has not named: the sum of exactly these, or a `TagMismatch`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.stamps import Origin, Pads, Place, Stamp
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.framing import framed

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
        self,
        values: Array,
        vector_format: VectorFormat,
        *,
        cipher: Cipher,
        field: str,
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Vector:
        """The values as a vector of the message's `field`; `places` has the place of each block.

        A message has each block of a field once. `among` as for `Cipher.encrypt`.
        """
        assert self.stamp is not None, "every message has a stamp"
        return cipher.encrypt(values, vector_format, origin=Origin(self.stamp, field), places=places, among=among)

    def digest(self, content: bytes) -> bytes:
        """A keyed hash of the content and of the view of the message that is being made; equal at all parties."""
        assert self.stamp is not None, "every message has a stamp"
        return self._pads.digest(framed(self.stamp.view, content))

    def open(
        self,
        vector: Vector,
        *,
        cipher: Cipher,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        """The values of a vector each of whose blocks is the sum of these origins; `TagMismatch` if it is not.

        `among` as for `Cipher.decrypt`.
        """
        return cipher.decrypt(vector, origins=origins, places=places, among=among)
