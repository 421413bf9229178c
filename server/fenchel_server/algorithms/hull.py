"""The corrective step: the best combination of the points that are known of each group.

Every point is a feasible α of its group, known by w_j and c_j. Over weights β_j ≥ 0 that sum to 1 in each group, the
server maximises

    −λ/2 ‖Σ_j β_j w_j‖² + Σ_j β_j c_j  ≤  D(Σ_j β_j p_j),

which holds because l* is convex, with equality for the hinge loss. The anchors are among the points, so that the
optimum is at least D as it stands; weights that do not reach it are not used.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective import Combination
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.corrective_snapshot import Hull, KnownPoint
from fenchel_server.algorithms.simplex_qp import maximise_over_simplices

Array = NDArray[np.float64]

SMALLEST_WEIGHT: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Group:
    """Clients that share samples, directly or through others, and their blocks. `labelled`: all of them have labels."""

    clients: tuple[ClientId, ...]
    blocks: tuple[int, ...]
    labelled: bool


def groups_of(layout: FederationLayout) -> tuple[Group, ...]:
    """The groups in the order of their first clients."""
    leader = {client: client for client in layout.clients}
    for block in layout.blocks:
        joined = {leader[client] for client in block.holders}
        first = min(joined, key=layout.clients.index)
        leader = {client: first if head in joined else head for client, head in leader.items()}
    groups = []
    for head in dict.fromkeys(leader[client] for client in layout.clients):
        members = tuple(client for client in layout.clients if leader[client] == head)
        blocks = tuple(block.id for block in layout.blocks if leader[block.holders[0]] == head)
        groups.append(Group(members, blocks, labelled=set(members) <= layout.label_holders))
    return tuple(groups)


def fresh_hull(group: Group, layout: FederationLayout) -> Hull:
    """α = 0, of which w and c are zero."""
    shares = {client: np.zeros(len(layout.client_features[client])) for client in group.clients}
    return Hull(frozenset(group.clients), 0, KnownPoint(shares, 0.0))


def collapse(hull: Hull, makers: frozenset[ClientId]) -> None:
    """Forgets all points but the anchor: others take part now than when they were made."""
    hull.makers, hull.point, hull.vertices, hull.models = makers, None, {}, ()
    hull.pending, hull.live_value = None, None


class Corrector:
    """Puts the points of all groups together; for one layout and λ."""

    def __init__(self, layout: FederationLayout, lambda_: float) -> None:
        self._layout = layout
        self._lambda = lambda_

    def model(self, shares: Mapping[ClientId, Array]) -> Array:
        """w = 1/(λN) Σ_k Σ_i α_i x_{k,i}, summed in roster order."""
        weights = np.zeros(len(self._layout.features))
        for client in self._layout.clients:
            if client in shares:
                weights[self._layout.client_features[client]] += shares[client]
        return weights / (self._lambda * self._layout.sample_count)

    def value(self, points: Sequence[KnownPoint]) -> float:
        """D at the α that has one of these points in each group."""
        weights = self.model({client: share for point in points for client, share in point.shares.items()})
        return -self._lambda / 2.0 * float(weights @ weights) + sum(point.value for point in points)

    def pending_model(self, hulls: Sequence[Hull]) -> Array:
        """w of the α that the next round begins with."""
        shares: dict[ClientId, Array] = {}
        for hull in hulls:
            for weight, point in weighted_points(hull):
                for client, share in point.shares.items():
                    shares[client] = shares.get(client, 0.0) + weight * share
        return self.model(shares)

    def correct(self, hulls: Sequence[Hull], movable: Collection[int], round_id: RoundId) -> float:
        """Decides the weights with which round `round_id` begins, and gives a lower bound on D there.

        Groups that are not `movable` stay at their anchors.
        """
        before = self.value([hull.anchor for hull in hulls])
        for hull in hulls:
            hull.pending = None
        moving = [number for number in sorted(movable) if hulls[number].point is not None or hulls[number].vertices]
        if not moving:
            return before
        points = {number: _points(hulls[number]) for number in moving}
        still = [hull.anchor for number, hull in enumerate(hulls) if number not in points]
        fixed = self.model({client: share for point in still for client, share in point.shares.items()})
        W = np.array([self.model(point.shares) for number in moving for point in points[number].values()])
        c = np.array([point.value for number in moving for point in points[number].values()])
        ends = np.cumsum([len(points[number]) for number in moving])
        groups = [np.arange(end - len(points[number]), end) for number, end in zip(moving, ends, strict=True)]
        b = maximise_over_simplices(
            self._lambda * (W @ W.T), c - self._lambda * (W @ fixed), groups, [int(entries[0]) for entries in groups]
        )
        b = np.where(b < SMALLEST_WEIGHT, 0.0, b)
        for entries in groups:
            b[entries] /= b[entries].sum()
        reached = fixed + W.T @ b
        after = -self._lambda / 2.0 * float(reached @ reached) + float(c @ b) + sum(point.value for point in still)
        if not after > before:
            return before
        for number, entries in zip(moving, groups, strict=True):
            hulls[number].pending = _combination(dict(zip(points[number], b[entries].tolist(), strict=True)), round_id)
        return after


def weighted_points(hull: Hull) -> list[tuple[float, KnownPoint]]:
    """What the pending α is made of."""
    if hull.pending is None:
        return [(1.0, hull.anchor)]
    parts = [(hull.pending.anchor, hull.anchor)]
    if hull.point is not None:
        parts.append((hull.pending.point, hull.point))
    return parts + [(weight, hull.vertices[model]) for model, weight in sorted(hull.pending.vertices.items())]


def _points(hull: Hull) -> dict[int | str, KnownPoint]:
    """By the id of their model, or by name; the anchor first."""
    known: dict[int | str, KnownPoint] = {"anchor": hull.anchor}
    if hull.point is not None:
        known["point"] = hull.point
    return known | dict(sorted(hull.vertices.items()))


def _combination(weights: dict[int | str, float], round_id: RoundId) -> Combination | None:
    if weights["anchor"] == 1.0:
        return None
    vertices = {name: weight for name, weight in weights.items() if isinstance(name, int) and weight > 0.0}
    return Combination(round_id, weights["anchor"], weights.get("point", 0.0), vertices)
