"""The seal of one of several problems whose vectors are in the same messages."""

from collections.abc import Collection, Sequence

from fenchel_client.crypto.plain import Cipher, Partners
from fenchel_client.crypto.seal import Array, Seal
from fenchel_client.crypto.stamps import Origin, Place, Stamp
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.framing import framed


class ScopedSeal(Seal):
    """Makes and opens vectors as `seal` does, with the name of the problem before each field.

    So blocks of the same field of two problems have different origins, and no pad and no mask is used twice. A vector
    of one problem does not open as a vector of another.

    Parameters
    ----------
    common
        Fields that all problems share: their names stay as they are.
    """

    def __init__(self, seal: Seal, problem: str, *, common: Collection[str]) -> None:
        self._seal = seal
        self._problem = problem
        self._common = frozenset(common)

    @property
    def stamp(self) -> Stamp | None:
        """The stamp of the message that is being made, which has the vectors of all problems."""
        return self._seal.stamp

    @stamp.setter
    def stamp(self, stamp: Stamp | None) -> None:
        self._seal.stamp = stamp

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
        return self._seal.close(
            values, vector_format, cipher=cipher, field=self._scoped(field), places=places, among=among
        )

    def digest(self, content: bytes) -> bytes:
        return self._seal.digest(framed(self._problem.encode(), content))

    def open(
        self,
        vector: Vector,
        *,
        cipher: Cipher,
        origins: Sequence[Sequence[Origin]],
        places: Sequence[Place],
        among: Sequence[Partners] | None = None,
    ) -> Array:
        scoped: dict[Origin, Origin] = {}
        for origin in {origin for given in origins for origin in given}:
            scoped[origin] = Origin(origin.stamp, self._scoped(origin.field))
        own = [[scoped[origin] for origin in given] for given in origins]
        return self._seal.open(vector, cipher=cipher, origins=own, places=places, among=among)

    def _scoped(self, field: str) -> str:
        return field if field in self._common else f"{self._problem}/{field}"
