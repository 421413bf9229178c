"""The messages of the averaging algorithms: clients work locally, and the server adds their vectors.

One round (each phase has a `Task` and a `Result`)::

    survey    only if the algorithm needs numbers of the clients before it decides on their work
    local     each client steps from the model on its own data and returns encrypted vectors, and numbers in clear
    measure   only in rounds that measure, with samples of several holders: their losses, from summed inner products
    measured  only in rounds that measure: clients open the sum of all figures and tell it, if it covers all samples

The server cannot read the model. It keeps a *log* of encrypted sums, one entry for each round, and sends the entries to
the clients. The clients have the key and apply the entries to their copy of the *state*: named vectors that start at
zero. A client that has lost its copy gets the whole log. If entries build on each other, clients are asked from time to
time to restate the state (a *checkpoint*), at which the log then begins; if each entry gives the whole state
(`Vectors.restates`), a newer entry replaces the older ones.

What the server decides is on record (`choices`). From the records and its layout each client computes what it is to do,
which contributions make up each entry, and with which weights.

A vector has one value for each *coordinate* of a party: its features by name, times `width`. Coordinates with the same
holders are put into *blocks* of S slots, so a party never gets a value of a feature that it does not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector

SURVEY: Final = "survey"
LOCAL: Final = "local"
MEASURE: Final = "measure"
MEASURED: Final = "measured"

MODEL_FORMAT: Final = VectorFormat()
"""For all vectors by coordinate, for inner products and for figures: |value| < 2^21, sums of up to 1024 clients."""

MODEL: Final = "model"
"""The name of the state's vector that is the model."""

ACCURACY: Final = "accuracy"
"""The name of the measured number that is the fraction of correct predictions for a client's own rows."""

FIGURES: Final = 4
"""The number of figures: samples, losses, correct predictions, squared weights."""
COUNT_UNIT: Final = 2.0**-10
"""The fixed-point number that stands for one sample, so that 10 million of them fit into a slot."""

CHECKPOINT_AFTER: Final = 8
"""The number of entries that build on each other after which clients are asked to restate the state."""

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The names of an algorithm's vectors and numbers.

    Attributes
    ----------
    state
        Vectors that every holder knows and an entry changes; all start at zero. `MODEL` is one of them.
    summed
        Vectors that clients return and the server adds. A client sends its weight times the value.
    kept
        Vectors that clients return and the server keeps, each for its own client only: the clients' memory between
        rounds. A name that is in `summed` too is sent once, and its weight must be 1.
    surveyed, reported
        The numbers that clients report to the server in clear: before their vectors, and together with them.
    measured
        The numbers that clients report in clear in a measured round; a client that shares samples reports none.
    restates
        Whether an entry gives the state on its coordinates independently of the state before.
    """

    state: tuple[str, ...] = (MODEL,)
    summed: tuple[str, ...] = (MODEL,)
    kept: tuple[str, ...] = ()
    surveyed: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    restates: bool = False

    @property
    def returned(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.summed, *self.kept)))


Sums = Mapping[str, BlockVector]
"""The sums of a round, by the name of the vector."""


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """The changes that a task makes to the client's memory before its work.

    Attributes
    ----------
    reset
        Whether the client first forgets everything; `kept` comes with a reset.
    base
        The state on some blocks; it replaces the client's state there.
    entries
        The sums that the client applies after `base`, in order.
    kept
        The client's own `Vectors.kept`, which the server has kept for it.
    """

    reset: bool = False
    base: Sums = field(default_factory=dict)
    entries: tuple[Sums, ...] = ()
    kept: Sums = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One client's task in any phase.

    Attributes
    ----------
    state
        In `survey` and `local`.
    products
        In `measure`: x_i·w of the shared blocks that the client reports on, summed over their holders.
    figures
        In `measured`: the sum of all clients' figures.
    """

    state: StateUpdate = StateUpdate()
    products: BlockVector | None = None
    figures: Vector | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """Sums over some samples and some blocks of the model, for the model that entered the round."""

    samples: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    squared_norm: float = 0.0

    def to_figures(self, sample_count: int) -> NDArray[np.float64]:
        """The measurement as numbers that fit into a vector of `MODEL_FORMAT`, with all N samples of the federation."""
        loss = self.loss_sum / sample_count
        return np.array([self.samples * COUNT_UNIT, loss, self.correct * COUNT_UNIT, self.squared_norm])

    @classmethod
    def from_figures(cls, figures: NDArray[np.float64], sample_count: int) -> "Measurement":
        samples, loss, correct, squared_norm = figures.tolist()
        return cls(round(samples / COUNT_UNIT), loss * sample_count, round(correct / COUNT_UNIT), squared_norm)


@dataclass(frozen=True, slots=True)
class Result:
    """One client's result. With `diverged` its values have left the range of the vectors, and all else is empty.

    `figures` is the client's own measurement, encrypted; `measurement` is that of all samples, in clear.
    """

    vectors: Sums = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Sums = field(default_factory=dict)
    products: BlockVector | None = None
    figures: Vector | None = None
    measurement: Measurement | None = None
    diverged: bool = False


def chosen_blocks(coordinates: Positions, slots: int) -> dict[int, Positions]:
    """The blocks of an entry on chosen coordinates."""
    return {block: coordinates[start : start + slots] for block, start in enumerate(range(0, len(coordinates), slots))}
