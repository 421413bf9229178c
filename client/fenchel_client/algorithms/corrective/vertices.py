"""The vertex of a round in a federation in which a party has no labels.

Where all parties have labels, each computes the vertex alone, at a model that the figures of the round decide. Without
labels a party cannot: label holders must tell it, before the figures are known. They compute the vertex halfway between
the best model and that of the round, in fixed point, so that all holders of a sample have the same value.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.points import MODEL
from fenchel_client.algorithms.corrective.round import ClientRound, rounded_towards_zero
from fenchel_client.algorithms.corrective.settlement import interpolated
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.stamps import Origin
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import STEPS, VERTEX_FIELD
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

HALFWAY: Final = STEPS // 2


def vertex_to_tell(rows: PartyRows, current: ClientRound, *, loss: Loss, formats: SampleFormats) -> Array:
    """(n,) the vertex on the live samples, and zero on all others; the caller must have labels.

    While a party is absent, the best model is not known to be better than that of the round, and the vertex is computed
    at the latter.
    """
    model = current.memory.entries[(MODEL, current.plan.round_id)]
    step = HALFWAY if current.plan.complete else STEPS
    z = interpolated(current.memory.best.predictions, model.predictions, step)[current.live]
    bound = formats.alpha.bound
    vertex = np.zeros(rows.count)
    # Dual variables nearer to zero are feasible too.
    vertex[current.live] = np.clip(loss.subgradient(z, rows.labels()[current.live]), -bound, bound)
    return rounded_towards_zero(vertex, formats)


def told_vertex(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    told: BlockVector | None,
    book: CorrectiveBook,
    *,
    loss: Loss,
) -> Array:
    """(L,) the vertex on the live samples, from the label holders that report on them."""
    if told is None or told.blocks != current.plan.live_blocks:
        raise InvalidInput("vertex.blocks: must be the blocks that take part")

    def origins(block: int) -> list[Origin]:
        return [book.of_reporter(block, VERTEX_FIELD)]

    return checked_duals(told, rows, codec, origins, loss=loss)
