"""The check of dual variables, and the norms of rows that several parties hold, for the dual algorithms."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Origins, RowCodec, all_holders, together
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

NORMS: Final = "norms"
"""The field of a preparation that has the norms."""


def feasible_duals(rows: PartyRows, positions: Positions, values: Array, loss: Loss) -> Array:
    """The feasible dual variables nearest to the values at these positions; without labels, feasible for some label."""
    return loss.feasible(values, None if rows.y is None else rows.y[positions])


def checked_duals(alpha: BlockVector, rows: PartyRows, codec: RowCodec, origins: Origins, *, loss: Loss) -> Array:
    """The dual variables at `rows.positions_of(alpha.blocks)`.

    A sum of honest parties is feasible, but for rounding errors, which are corrected. Other values raise
    `InvalidInput`: with them steps and certificates mean nothing, and a server could make the model show single rows.
    """
    values = codec.from_blocks(alpha, origins)
    feasible = feasible_duals(rows, rows.positions_of(alpha.blocks), values, loss)
    terms = max(len(origins(block)) for block in alpha.blocks)
    wrong = np.abs(values - feasible) > alpha.vector.format.error_bound(terms)
    if wrong.any():
        blocks = np.repeat(alpha.blocks, [len(rows.positions[block]) for block in alpha.blocks])[wrong]
        raise InvalidInput(
            f"the dual variables of {len(np.unique(blocks))} blocks are outside their interval: a party that holds the "
            "same samples, or the server, has altered them"
        )
    return feasible


def norms_alone(rows: PartyRows) -> Array | None:
    """(n,) ‖x_i‖² of whole rows, if no other party holds a part of one; else None."""
    return None if rows.shared else rows.held.squared_norms()


def own_norms(rows: PartyRows, codec: RowCodec) -> BlockVector | None:
    """enc(‖x_{k,i}‖²), this party's part of ‖x_i‖², of the shared blocks; None if there are none."""
    if not rows.shared:
        return None
    return codec.to_blocks(
        NORMS, sorted(rows.shared), rows.held.squared_norms(), PRODUCT_FORMAT, among=together(all_holders)
    )


def whole_norms(norms: BlockVector, rows: PartyRows, codec: RowCodec, origins: Origins) -> Array:
    """(n,) ‖x_i‖² of whole rows: the secure sum `norms` on shared blocks, computed from own columns on others."""
    if norms.blocks != tuple(sorted(rows.shared)):
        raise InvalidInput("norms.blocks: must be all shared blocks of this client")
    whole = rows.held.squared_norms()
    # The sum of rounded parts can be slightly below zero where all parts are zero.
    whole[rows.positions_of(norms.blocks)] = np.maximum(codec.from_blocks(norms, origins), 0.0)
    return whole
