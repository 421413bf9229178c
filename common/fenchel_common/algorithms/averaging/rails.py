"""The messages of the averaging algorithms: clients work locally, and the server adds their vectors.

One round (each phase has a `Task` and a `Result`)::

    survey    only if the algorithm needs numbers of the clients before it decides on their work
    local     each client steps from the model on its own data and returns encrypted vectors, and numbers in clear
    measure   only in rounds that measure, with samples of several holders: P(w) from summed inner products

The server cannot read the model. It keeps a *log* of encrypted sums, one `Entry` for each round, and sends the entries
to the clients. The clients have the key and apply the entries to their copy of the *state*: named vectors that start at
zero. A client that has lost its copy gets the whole log. If entries build on each other, clients are asked from time to
time to restate the state (a *checkpoint*), at which the log then begins; if each entry gives the whole state
(`Vectors.restates`), a newer entry replaces the older ones.

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
from fenchel_common.ids import RoundId

SURVEY: Final = "survey"
LOCAL: Final = "local"
MEASURE: Final = "measure"

MODEL_FORMAT: Final = VectorFormat()
"""For all vectors by coordinate, and for inner products: |value| < 2^21, sums of up to 1024 clients."""

MODEL: Final = "model"
"""The name of the state's vector that is the model."""

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
    restates
        Whether an entry gives the state on its coordinates independently of the state before.
    """

    state: tuple[str, ...] = (MODEL,)
    summed: tuple[str, ...] = (MODEL,)
    kept: tuple[str, ...] = ()
    surveyed: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    restates: bool = False

    @property
    def returned(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.summed, *self.kept)))


@dataclass(frozen=True, slots=True)
class Entry:
    """The changes of one round: the sums by block, the total weight of their contributions, and the server's numbers.

    With `coordinates` the blocks are consecutive pieces of that list, not the blocks of the layout; then all parties
    must hold all features.
    """

    round_id: RoundId
    told: Mapping[str, float]
    weights: Mapping[int, float]
    sums: Mapping[str, BlockVector]
    coordinates: Positions | None = None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """The changes that a task makes to the client's memory before its work.

    Attributes
    ----------
    reset
        Whether the client first forgets everything; `layout` and `kept` come with a reset.
    layout
        For each of the client's blocks the positions of its coordinates among the client's own.
    base
        The state on some blocks; it replaces the client's state there.
    entries
        The entries that the client applies after `base`, in order.
    kept
        The client's own `Vectors.kept`, which the server has kept for it.
    """

    reset: bool = False
    layout: Mapping[int, Positions] | None = None
    base: Mapping[str, BlockVector] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    kept: Mapping[str, BlockVector] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """The local work: the server's numbers, the client's weight, and the coordinates to work on (None: all)."""

    told: Mapping[str, float] = field(default_factory=dict)
    weight: float = 1.0
    coordinates: Positions | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One client's task in any phase.

    Attributes
    ----------
    stream
        A number that makes this client's random numbers differ from those of the others.
    checkpoint_blocks
        Blocks on which the client restates the state that enters the round.
    product_blocks
        Blocks of samples of which the client returns inner products.
    report_blocks
        Blocks of samples on which this client reports in the measurement.
    norm_blocks
        Blocks of coordinates on whose ‖w‖² this client reports.
    products
        x_i·w of the shared blocks in `report_blocks`, summed over their holders.
    """

    round_id: RoundId
    stream: int
    state: StateUpdate = StateUpdate()
    work: Work | None = None
    checkpoint_blocks: tuple[int, ...] = ()
    product_blocks: tuple[int, ...] = ()
    report_blocks: tuple[int, ...] = ()
    norm_blocks: tuple[int, ...] = ()
    products: BlockVector | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One client's sums over its `report_blocks` and `norm_blocks`, for the model that entered the round."""

    samples: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    squared_norm: float = 0.0

    def plus(self, other: "Measurement") -> "Measurement":
        return Measurement(
            samples=self.samples + other.samples,
            loss_sum=self.loss_sum + other.loss_sum,
            correct=self.correct + other.correct,
            squared_norm=self.squared_norm + other.squared_norm,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One client's result. With `diverged` its values have left the range of the vectors, and all else is empty."""

    vectors: Mapping[str, BlockVector] = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Mapping[str, BlockVector] = field(default_factory=dict)
    products: BlockVector | None = None
    measurement: Measurement | None = None
    diverged: bool = False


def chosen_blocks(coordinates: Positions, slots: int) -> dict[int, Positions]:
    """The blocks of an entry on chosen coordinates."""
    return {block: coordinates[start : start + slots] for block, start in enumerate(range(0, len(coordinates), slots))}
