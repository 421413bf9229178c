"""The rails of the algorithms whose clients work locally and whose server adds up: messages.

One round (each phase has a `Task` and a `Result`)::

    survey    only where the algorithm asks numbers of the clients before it decides what they shall do
    local     each client steps from the model on its own data and returns encrypted vectors, and numbers in clear
    measure   only in rounds that measure, and where parties share samples: P(w) from summed inner products

The server cannot read the model. What it keeps is a *log* of encrypted sums, one `Entry` a round, and it hands the
entries to the clients, who hold the key and apply them to their copy of the *state*: named vectors that start at zero.
A client that has lost its copy gets the log from its beginning. Where entries build on each other, clients now and then
restate the state (a *checkpoint*), and the log begins there; where each entry gives the state afresh
(`Vectors.restates`), a newer one replaces the older ones.

A vector has one value for each *coordinate* of a party: its features by name, times `width`. Coordinates with the same
holders share *blocks* of S slots, so a party is never given a value of a feature that it does not hold.
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
"""Entries that build on each other, after which clients are asked to restate the state."""

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The names of an algorithm's vectors and numbers.

    Attributes
    ----------
    state
        What every holder knows and an entry changes; all start at zero. `MODEL` is one of them.
    summed
        What clients return for the server to add up. A client sends its weight times the value.
    kept
        What clients return for the server to keep, each for its own client alone: their memory between rounds. A name
        that is in `summed` too travels once, and its weight must be 1.
    surveyed, reported
        The numbers that clients tell the server in clear: before, and together with, their vectors.
    restates
        Whether an entry gives the state on the coordinates that it covers whatever it was before.
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
    """What one round changes: the sums by block, the total weight of those who gave them, and the server's numbers.

    With `coordinates` the blocks are consecutive pieces of that list, not the blocks of the layout; this needs parties
    that all hold all features.
    """

    round_id: RoundId
    told: Mapping[str, float]
    weights: Mapping[int, float]
    sums: Mapping[str, BlockVector]
    coordinates: Positions | None = None


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """What a task changes in the client's memory, before anything else.

    Attributes
    ----------
    reset
        Forget all first; `layout` and `kept` come with it.
    layout
        For each of the client's blocks the positions of its coordinates among the client's own.
    base
        The state on some blocks, which replaces what the client has there.
    entries
        To be applied after `base`, in order.
    """

    reset: bool = False
    layout: Mapping[int, Positions] | None = None
    base: Mapping[str, BlockVector] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    kept: Mapping[str, BlockVector] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What to do locally: with these numbers and weight, on all coordinates or the given ones."""

    told: Mapping[str, float] = field(default_factory=dict)
    weight: float = 1.0
    coordinates: Positions | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One client's task in any phase.

    Attributes
    ----------
    stream
        Tells this client's random numbers from those of the others.
    checkpoint_blocks
        Blocks on which to restate the state that enters the round.
    product_blocks
        Blocks of samples of which to return inner products.
    report_blocks
        Blocks of samples for which this client answers in the measurement.
    norm_blocks
        Blocks of coordinates for whose ‖w‖² it answers.
    products
        x_i·w of the shared ones of `report_blocks`, summed over their holders.
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
    """One client's sums, for the model that entered the round."""

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
    """`diverged`: the values have left the range of the vectors, and nothing else is there."""

    vectors: Mapping[str, BlockVector] = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Mapping[str, BlockVector] = field(default_factory=dict)
    products: BlockVector | None = None
    measurement: Measurement | None = None
    diverged: bool = False


def chosen_blocks(coordinates: Positions, slots: int) -> dict[int, Positions]:
    """The blocks of an entry on chosen coordinates."""
    return {block: coordinates[start : start + slots] for block, start in enumerate(range(0, len(coordinates), slots))}
