"""A party's figures of a measurement, encrypted, and the sum of all parties' figures, opened."""

from dataclasses import dataclass

from fenchel_client.algorithms.averaging.work import FIGURES_FIELD
from fenchel_client.algorithms.codec import Origins
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Place, number_places
from fenchel_common.algorithms.averaging.rails import FIGURES, MODEL_FORMAT, Measurement
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class FigureCodec:
    """Turns measurements into vectors of `FIGURES` numbers, and back; `sample_count` is that of the federation.

    In a phase with figures all `clients` give some, and masks between them hide the figures of each.
    """

    clients: tuple[ClientId, ...]
    sample_count: int
    cipher: Cipher
    seal: Seal

    def closed(self, measurement: Measurement) -> Vector:
        """One party's measurement, as a field of the message that is being made."""
        return self.seal.close(
            measurement.to_figures(self.sample_count),
            MODEL_FORMAT,
            cipher=self.cipher,
            field=FIGURES_FIELD,
            places=self._places(),
            among=lambda _: self.clients,
        )

    def opened(self, vector: Vector, origins: Origins) -> Measurement:
        """The sum of the measurements of these origins; `InvalidInput` unless they cover all samples."""
        places = self._places()
        expected = [origins(block) for block in range(len(places))]
        figures = self.seal.open(vector, cipher=self.cipher, origins=expected, places=places)
        whole = Measurement.from_figures(figures, self.sample_count)
        if whole.samples != self.sample_count:
            raise InvalidInput("figures: they do not cover all samples")
        return whole

    def _places(self) -> list[Place]:
        return number_places(-(-FIGURES // self.cipher.slots))
