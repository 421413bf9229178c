"""A party's local problem, and its predictions, while it does not know all inner products.

For each point of which all holders of its samples have given their inner products the party knows x_i·w_j. The
prediction of another model w uses the Gram matrix of the models, which all parties know: w is projected onto the span
of these points' models, and what the party's own columns know of the rest is added. Where all points are known this is
x_i·w. The rows of the local problem are described in the same way as with all parties
(`fenchel_client/algorithms/corrective/local_rows.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from fenchel_client.algorithms.corrective.local_newton import local_point
from fenchel_client.algorithms.corrective.local_rows import SMALLEST_EIGENVALUE
from fenchel_client.algorithms.corrective.points import Memory, Name
from fenchel_client.algorithms.partial.state import PartyState
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_client.rowpieces import in_pieces, with_constant
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Matrix
from fenchel_common.ids import ClientId
from fenchel_common.losses import Loss
from fenchel_common.objectives import squared_row_norms

Array = NDArray[np.float64]

BASIS: Final = 20
"""The newest points whose models describe the columns of other parties."""
SPANNED: Final = 1e-12
"""The least eigenvalue of the Gram matrix of known models, relative to the largest, whose direction is used."""


def predicted(rows: PartyRows, layout: ClientLayout, state: PartyState, name: Name) -> Array:
    """(n,) x_i·w of the model of an entry, as far as the party knows it."""
    memory, weights = state.memory, state.memory.entries[name].weights
    values = rows.products(np.arange(rows.count), weights)
    for samples in _groups(rows, layout).values():
        names = _known(memory, state.predictions, samples)
        if not names:
            continue
        among, (row,) = memory.rows(names), memory.rows([name])
        eigenvalues, directions = np.linalg.eigh(memory.gram[np.ix_(among, among)])
        kept = eigenvalues > SPANNED * max(float(eigenvalues[-1]), 0.0)
        if not kept.any():
            continue
        basis = directions[:, kept] / np.sqrt(eigenvalues[kept])
        shares = basis @ (basis.T @ memory.gram[among, row])
        spanned = sum(share * memory.entries[one].weights for share, one in zip(shares, names, strict=True))
        whole = sum(share * state.predictions[one][samples] for share, one in zip(shares, names, strict=True))
        values[samples] = rows.products(samples, weights - spanned)[samples] + whole
    return values


def found_locally(
    rows: PartyRows,
    layout: ClientLayout,
    state: PartyState,
    predictions: Array,
    *,
    live: Positions,
    norms: Array,
    strength: float,
    loss: Loss,
    constant: float,
) -> Array:
    """Feasible dual variables of the live samples; parameters as for the corrective `found_locally`."""
    F = _described(rows, layout, state, live, constant=constant)
    known = float(squared_row_norms(F).sum())
    completion = float(norms[live].sum()) / known if known > 0.0 else 1.0
    alpha = state.memory.anchor.alpha[live]
    kappa = strength * max(completion, 1.0)
    return local_point(in_pieces(F), rows.labels()[live], alpha, predictions[live], kappa=kappa, loss=loss)


def _described(rows: PartyRows, layout: ClientLayout, state: PartyState, live: Positions, *, constant: float) -> Matrix:
    """The party's own columns of the live rows, and the projections of the other columns onto the known models."""
    if not rows.shared:
        return rows.X[live]
    columns = with_constant(rows.X[live], rows.intercept, constant)
    shared = np.concatenate([np.zeros(0, dtype=np.int64), *_groups(rows, layout).values()])
    names = _known(state.memory, state.predictions, shared)[-BASIS:]
    if not names:
        return columns
    among = state.memory.rows(names)
    gram = state.memory.gram[np.ix_(among, among)]
    weights = np.array([state.memory.entries[name].weights for name in names])
    if rows.features_apart:
        gram = gram - weights @ weights.T
    eigenvalues, directions = np.linalg.eigh(gram)
    kept = eigenvalues > SMALLEST_EIGENVALUE * max(float(np.trace(gram)), 0.0)
    if not kept.any():
        return columns
    own = columns @ weights.T
    # Of samples that no other party holds, there is nothing beyond the own columns.
    whole = np.array([state.predictions[name][live] for name in names]).T
    others = np.where(np.isin(live, shared)[:, np.newaxis], whole - own, 0.0)
    projected = others @ (directions[:, kept] / np.sqrt(eigenvalues[kept]))
    if isinstance(columns, csr_array):
        return csr_array(hstack([columns, csr_array(projected)], format="csr"))
    return np.hstack([columns, projected])


def _groups(rows: PartyRows, layout: ClientLayout) -> dict[tuple[ClientId, ...], Positions]:
    """The positions of the shared samples, by their holders."""
    blocks: dict[tuple[ClientId, ...], list[int]] = {}
    for block in sorted(rows.shared):
        blocks.setdefault(layout.holders[block], []).append(block)
    return {holders: rows.positions_of(of) for holders, of in blocks.items()}


def _known(memory: Memory, predictions: Mapping[Name, Array], samples: Positions) -> Sequence[Name]:
    """The remembered points whose inner products with all these samples the party knows."""
    return [name for name in memory.entries if name in predictions and not np.isnan(predictions[name][samples]).any()]
