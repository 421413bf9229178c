"""Rounds of corrective HyFDCA at the server, without clients: states and answers made of constant vectors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Final, TypeVar

import numpy as np

from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.algorithms.corrective.messages import FIGURE_COUNT, DualResult, Objectives, PrimalResult
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import ALPHA_FORMAT, PRODUCT_FORMAT
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.wire.corrective_snapshot import CorrectiveState, Memories, PendingPoints, StoredAnchor
from fenchel_server.algorithms.corrective.exchange import CorrectiveAnswer, Parts
from fenchel_server.algorithms.corrective.round import CorrectiveRound, begin_round
from fenchel_server.algorithms.intake import Answers, PhaseSums
from support.keys import tags
from support.layouts import A, B, small_federation_layout
from support.simulation import read_unchecked
from support.tagged import encrypted

R = TypeVar("R")

CIPHER: Final = PlainCipher(2048, tags())
BOTH: Final = frozenset({A, B})
LAYOUT: Final = replace(small_federation_layout(), label_holders=BOTH)
"""A holds the blocks of samples 0, 1 and 2 and the block of features 0; B the blocks of samples 1 and 2 and 1."""
SETTINGS: Final = CorrectiveSettings.parse({"local": "corrective", "lambda": 0.5, "stop": {"gap": None}})
OBJECTIVES: Final = Objectives(primal=0.75, dual=0.5, accuracy=0.875, squared_norm=9.0, row_norm=2.0)


def constant(value: float, vector_format: VectorFormat = PRODUCT_FORMAT, *, blocks: int = 1) -> Vector:
    return encrypted(CIPHER, np.full(blocks * CIPHER.slots, value), vector_format)


def on(blocks: tuple[int, ...], value: float, vector_format: VectorFormat = PRODUCT_FORMAT) -> BlockVector | None:
    """The same value in all these blocks."""
    return BlockVector(blocks, constant(value, vector_format, blocks=len(blocks))) if blocks else None


def values_of(blocks: BlockSum | BlockVector) -> dict[int, float]:
    """The constant of each block."""
    return {block: float(read_unchecked(CIPHER, vector)[0]) for block, vector in blocks.parts().items()}


def state_after(round_id: int, *, participants: frozenset[ClientId] = BOTH) -> CorrectiveState:
    """A state in which α is 0.25, the anchor's model 1, the best model 2, and the pending points are 3 and 4."""
    return CorrectiveState(
        norms=BlockSum.of(on((1, 2), 1.0)),
        memories=Memories(round_id, participants, BOTH),
        anchor=StoredAnchor(
            round_id=round_id,
            alpha=BlockSum.of(on((0, 1, 2), 0.25, ALPHA_FORMAT)),
            weights=BlockSum.of(on((0, 1), 1.0)),
        ),
        model=BlockSum.of(on((0, 1), 2.0)),
        pending=PendingPoints(
            point=BlockSum.of(on((0, 1), 3.0)),
            vertex=BlockSum.of(on((0, 1), 4.0)),
            conjugates_and_products=encrypted(CIPHER, np.array([0.5, 0.5]), PRODUCT_FORMAT),
        ),
    )


def begun(
    state: CorrectiveState, round_id: int, *, available: frozenset[ClientId] = BOTH, closing: bool = False
) -> tuple[CorrectiveState, CorrectiveRound]:
    return begin_round(state, RoundId(round_id), available, closing=closing, settings=SETTINGS, layout=LAYOUT)


def answers_of(results: Mapping[ClientId, R], parts: Callable[[R], Parts]) -> Answers[CorrectiveAnswer]:
    """The outcome of a phase in which these results came."""
    taken = {client: parts(result) for client, result in results.items()}
    sums = reduce(PhaseSums.plus, (sums for _, sums in taken.values()), PhaseSums())
    return Answers({client: kept for client, (kept, _) in taken.items()}, {}, sums)


def dual_answers(current: CorrectiveRound) -> dict[ClientId, DualResult]:
    """The combined α is 0.5 and its model 5."""
    return {
        client: DualResult(
            point=None if current.closing else on(blocks.live, 0.125, ALPHA_FORMAT),
            figures=encrypted(CIPHER, np.zeros(FIGURE_COUNT), PRODUCT_FORMAT),
            alpha=on(blocks.reports, 0.5, ALPHA_FORMAT),
            weights=on(blocks.features, 5.0),
            combination=bytes(32),
        )
        for client, blocks in current.blocks.items()
    }


def primal_answers(current: CorrectiveRound, *, accepted: bool = True) -> dict[ClientId, PrimalResult]:
    """The new best model is 6, and each client contributes 7 to the point and 8 to the vertex."""
    solved = not current.closing
    return {
        client: PrimalResult(
            point=on(tuple(LAYOUT.feature_index.of(client)), 7.0) if solved else None,
            vertex=on(tuple(LAYOUT.feature_index.of(client)), 8.0) if solved else None,
            conjugates_and_products=encrypted(CIPHER, np.array([0.25, 0.25]), PRODUCT_FORMAT) if solved else None,
            model=on(blocks.features, 6.0),
            objectives=OBJECTIVES if current.reports_objectives else None,
            accepted=accepted,
        )
        for client, blocks in current.blocks.items()
    }
