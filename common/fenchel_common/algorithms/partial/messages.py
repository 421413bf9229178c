"""Values that the halves of corrective HyFDCA exchange while some of the parties take part.

docs/partial.md explains the terms. Vectors by sample consist of blocks of samples, vectors by feature of blocks of
features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fenchel_common.algorithms.corrective.messages import Objectives
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId


@dataclass(frozen=True, slots=True)
class RoundChoices:
    """The choices of the server with which a round begins; they are on record.

    Attributes
    ----------
    participants
        The clients that take part in the round.
    owners
        The holders of the blocks of which a label holder takes part; nobody in a round that trains nobody.
    closing
        Whether the round is the last one.
    live_samples
        The number of samples in these blocks.
    """

    participants: frozenset[ClientId]
    owners: frozenset[ClientId]
    closing: bool
    live_samples: int


@dataclass(frozen=True, slots=True)
class OfPair:
    """A vector of each of the two points of a pair; None without blocks."""

    point: BlockVector | None
    vertex: BlockVector | None


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a complete pair, and by how much the mean conjugates of its points differ from the anchor's."""

    models: OfPair
    conjugates: Vector


@dataclass(frozen=True, slots=True)
class Start:
    """The anchor with which the rounds of pairs begin, in a run that had others before; None without blocks."""

    alpha: BlockVector | None
    weights: BlockVector | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Sums that a client does not know yet.

    Attributes
    ----------
    values
        By the round that made a pair: the dual variables of its points, on the client's live blocks.
    models
        The models of complete pairs.
    grams
        By the round in which pairs were solved: the products of their models with all remembered ones.
    predictions
        The inner products of the client's rows with the models of pairs, on blocks all of whose holders gave theirs.
    start
        Only in a run that had other rounds before, at a client that does not know it.
    """

    values: Mapping[int, OfPair] = field(default_factory=dict)
    models: Mapping[int, Models] = field(default_factory=dict)
    grams: Mapping[int, Vector] = field(default_factory=dict)
    predictions: Mapping[int, OfPair] = field(default_factory=dict)
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class ProductResult:
    """A client's inner products: with the models of pairs, and in a round that measures with mean and anchor.

    `gram` is its part of the products of models; None without a batch.
    """

    products: Mapping[int, OfPair]
    gram: Vector | None
    measured: OfPair | None
    """With the mean model (as point) and with the anchor's (as vertex)."""


@dataclass(frozen=True, slots=True)
class DualTask:
    """The client combines points and solves its local problem."""

    facts: Facts
    norms: BlockVector | None
    measured: OfPair | None


@dataclass(frozen=True, slots=True)
class DualResult:
    """A client's part of the new pair, and in a round that measures its contribution to the figures.

    Attributes
    ----------
    point
        The solution of the local problem, divided by the number of label holders of a block that take part.
    vertex
        On the blocks that the client reports on.
    combination
        A hash of what all clients remember in common.
    moved
        Whether the anchor is another one than before the round.
    """

    point: BlockVector | None
    vertex: BlockVector | None
    figures: Vector | None
    combination: bytes
    moved: bool


@dataclass(frozen=True, slots=True)
class PrimalTask:
    """The new pair on the client's live blocks; in a round that measures, the sum of the figures."""

    values: OfPair
    figures: Vector | None


@dataclass(frozen=True, slots=True)
class PrimalResult:
    """A client's share of the new pair's models, and its part of the released model.

    Attributes
    ----------
    share
        None unless the client owns a part of the new pair.
    conjugates
        None in a round that trains nobody.
    objectives
        In a round that measures.
    """

    share: OfPair | None
    conjugates: Vector | None
    model: BlockVector | None
    objectives: Objectives | None
