"""What the server keeps of a corrective HyFDCA run: the hull of each group, and the ciphertexts of its points."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fenchel_common.algorithms.corrective import MEMORY, Measured, Memory, Opened, RememberedModel
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.corrective_snapshot import CorrectiveSnapshot, KeptModel, KnownPoint
from fenchel_server.algorithms.hull import Corrector, collapse, fresh_hull, groups_of
from fenchel_server.algorithms.state import HyfdcaState, blocks_of, joined

Array = NDArray[np.float64]


class CorrectiveState(HyfdcaState):
    """Durable state of a run between rounds: `alpha`, `norms`, `point`, `models` and `hulls`.

    Attributes
    ----------
    alpha
        enc(α) of the anchors by block.
    point
        enc(p) by block, of groups that have a point.
    models
        The models that some group remembers.
    corrector
        Puts the points of all groups together.
    """

    def __init__(self, layout: FederationLayout, lambda_: float) -> None:
        super().__init__(layout)
        self.groups = groups_of(layout)
        self.group_of = {client: number for number, group in enumerate(self.groups) for client in group.clients}
        self.hulls = [fresh_hull(group, layout) for group in self.groups]
        self.point: dict[int, Vector] = {}
        self.models: dict[int, KeptModel] = {}
        self.corrector = Corrector(layout, lambda_)
        self._reporters = self.reporters()

    def snapshot(self, round_id: RoundId) -> CorrectiveSnapshot:
        return CorrectiveSnapshot(round_id, self.alpha, self.point, self.norms, self.models, tuple(self.hulls))

    def take(self, saved: CorrectiveSnapshot) -> None:
        if [set(hull.anchor.shares) for hull in saved.hulls] != [set(group.clients) for group in self.groups]:
            raise StateDamaged("the snapshot is of other clients than the layout")
        self.alpha, self.norms, self.point = saved.alpha, saved.norms, saved.point
        self.models, self.hulls = saved.models, list(saved.hulls)

    def pending_model(self) -> Array:
        """w of the α that the next round begins with."""
        return self.corrector.pending_model(self.hulls)

    def decide(self, movable: Collection[int], round_id: RoundId) -> float:
        """The corrective step: the weights that round `round_id` begins with, and a lower bound on D there."""
        reached = self.corrector.correct(self.hulls, movable, round_id)
        self._forget()
        return reached

    def prepare(self, playing: Collection[int], available: frozenset[ClientId], round_id: RoundId) -> None:
        """Forgets what those who are there now cannot use, and decides anew where an absence cost the weights."""
        undecided = any(
            self.hulls[number].point is not None and self.hulls[number].pending is None for number in playing
        )
        for number, (group, hull) in enumerate(zip(self.groups, self.hulls, strict=True)):
            makers = frozenset(group.clients) & available
            changed = number in playing and hull.makers != makers
            if changed or number not in playing:
                undecided |= hull.pending is not None
            if changed:
                collapse(hull, makers)
        if undecided:
            self.corrector.correct(self.hulls, playing, round_id)
        self._forget()

    def memory(self, client: ClientId, live: Sequence[int]) -> Memory:
        """What a client with these live blocks must know if it lost its state.

        The points that are left were made by the clients that are there now, hence of the same live blocks.
        """
        hull = self.hulls[self.group_of[client]]
        labels = client in self._layout.label_holders
        models = [self._remembered(model, client, live) for model in hull.models] if labels else []
        return Memory(
            alpha=joined([block for block in self.held[client] if block in self.alpha], self.alpha),
            point=None if hull.point is None else joined(live, self.point),
            models=tuple(models),
        )

    def _remembered(self, model: int, client: ClientId, live: Sequence[int]) -> RememberedModel:
        kept = self.models[model]
        products = joined([block for block in live if block in self.shared], kept.products)
        return RememberedModel(model, kept.weights[self._layout.client_features[client]], tuple(live), products)

    def kept_models(self, number: int, round_id: RoundId) -> tuple[int, ...]:
        """The models that a group remembers once it has that of this round."""
        return (*self.hulls[number].models, round_id)[-MEMORY:]

    def reached(
        self, playing: Collection[int], opened: Mapping[ClientId, Opened], live: frozenset[int]
    ) -> list[KnownPoint]:
        """α of each group as its clients have it now; the anchor of those that do not play."""
        told = {client: Measured(answer.share, answer.conjugate_sum) for client, answer in opened.items()}
        for number in playing:
            if self.hulls[number].live_value is None:
                # Nothing was left to combine, so what was told is of the anchor itself.
                self.hulls[number].live_value = self._live_value(number, told, live)
        return [
            self._point_of(number, told, live) if number in playing else hull.anchor
            for number, hull in enumerate(self.hulls)
        ]

    def settle(
        self,
        reached: Sequence[KnownPoint],
        playing: Collection[int],
        opened: Mapping[ClientId, Opened],
        live: frozenset[int],
        *,
        round_id: RoundId,
        accepted: bool,
    ) -> None:
        """Makes the new α the anchor, or drops it; either way point and weights have served."""
        told = {client: Measured(answer.share, answer.conjugate_sum) for client, answer in opened.items()}
        for number in playing:
            hull = self.hulls[number]
            if accepted:
                hull.live_value = self._live_value(number, told, live)
                hull.anchor_round = hull.anchor_round if hull.pending is None else round_id
                hull.anchor = reached[number]
            hull.point, hull.pending = None, None
        if accepted:
            for answer in opened.values():
                if answer.alpha is not None:
                    self.alpha.update(blocks_of(answer.alpha))

    def keep_points(
        self,
        number: int,
        points: Mapping[ClientId, Measured],
        vertices: Mapping[ClientId, Measured],
        live: frozenset[int],
        round_id: RoundId,
    ) -> None:
        """Takes the new point and vertex of a group."""
        hull = self.hulls[number]
        hull.point = self._point_of(number, points, live)
        if self.groups[number].labelled:
            hull.vertices[round_id] = self._point_of(number, vertices, live)
        self.keep_models(number, self.kept_models(number, round_id))

    def keep_models(self, number: int, models: Sequence[int]) -> None:
        hull = self.hulls[number]
        hull.models = tuple(models)
        hull.vertices = {model: vertex for model, vertex in hull.vertices.items() if model in models}

    def _point_of(self, number: int, told: Mapping[ClientId, Measured], live: frozenset[int]) -> KnownPoint:
        """A point that equals the anchor on all blocks that are not live, from what the clients tell of it."""
        hull = self.hulls[number]
        assert hull.live_value is not None, "the live part of the anchor's c is told before any point of it"
        value = self._live_value(number, told, live)
        if not live.issuperset(self.groups[number].blocks):
            value += hull.anchor.value - hull.live_value
        shares = {
            client: told[client].share if client in told else share for client, share in hull.anchor.shares.items()
        }
        return KnownPoint(shares, value)

    def _live_value(self, number: int, told: Mapping[ClientId, Measured], live: frozenset[int]) -> float:
        """The part of c that is due to the live blocks of a group: −1/N Σ l*."""
        clients = [client for client in self.groups[number].clients if self.reported(client, live)]
        return -sum(told[client].conjugate_sum for client in clients) / self._layout.sample_count

    def reported(self, client: ClientId, live: frozenset[int]) -> tuple[int, ...]:
        """The live blocks that the client answers for."""
        return tuple(block for block in self._reporters.get(client, ()) if block in live)

    def _forget(self) -> None:
        """Drops the ciphertexts that no group needs any more."""
        owner = {block: self.hulls[number] for number, group in enumerate(self.groups) for block in group.blocks}
        self.models = {
            model: KeptModel(
                kept.weights,
                {block: vector for block, vector in kept.products.items() if model in owner[block].models},
            )
            for model, kept in self.models.items()
            if any(model in hull.models for hull in self.hulls)
        }
        self.point = {block: vector for block, vector in self.point.items() if owner[block].point is not None}
