"""A round of corrective HyFDCA at the server: how it begins, and the tasks of its phases.

All functions here are pure. A block of samples is *live* in a round if all its holders are available. The clients of
live blocks take part; all other blocks keep their α.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from fenchel_common.algorithms.corrective.messages import (
    Anchor,
    DualResult,
    DualTask,
    PrimalTask,
    Products,
    RoundStart,
)
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.blocks import BlockVector, joined, joined_on, summed
from fenchel_common.crypto.vectors import Vector, total
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_server.algorithms.phased import RoundUnderWay, is_due, not_there


@dataclass(slots=True, kw_only=True)
class CorrectiveRound(RoundUnderWay):
    """A round under way: what its beginning fixes, and the answers so far.

    Attributes
    ----------
    certifying
        Whether a certificate is due.
    complete
        Whether all blocks of samples are live. Only then is P known, and a certificate possible.
    live
        The live blocks of samples.
    starts
        The `RoundStart` of each client that takes part.
    products, duals
        The answers to `inner_product` and to `local_dual`; empty until a phase has ended.
    """

    certifying: bool
    complete: bool
    live: frozenset[int]
    starts: Mapping[ClientId, RoundStart]
    products: Mapping[ClientId, Products] = field(default_factory=dict)
    duals: Mapping[ClientId, DualResult] = field(default_factory=dict)

    @property
    def collapse(self) -> bool:
        """Whether all clients begin with the anchor and the best model alone."""
        return any(start.collapse for start in self.starts.values())

    @property
    def reports_objectives(self) -> bool:
        """Whether the clients report the objectives, from which the server makes a certificate."""
        return self.certifying and self.complete


def begin_round(
    state: CorrectiveState,
    round_id: RoundId,
    available: frozenset[ClientId],
    *,
    closing: bool,
    settings: CorrectiveSettings,
    layout: FederationLayout,
) -> tuple[CorrectiveState, CorrectiveRound]:
    """The round that begins with the available clients, and the state with its participants.

    The round begins with a collapse if other clients take part than before, if the memory of one is not intact, or if
    the last round stored no memories. In these cases the other points would change blocks that are not live, or a
    client does not know them.
    """
    index, memories = layout.sample_index, state.memories
    live = index.complete(available)
    present = [client for client in layout.clients if not live.isdisjoint(index.of(client))]
    participants = frozenset(present)
    continued = participants == memories.participants and participants <= memories.intact
    collapse = not continued or memories.round_id != round_id - 1
    features = layout.feature_index.first_holders(participants)
    starts = {
        client: _round_start(
            client, state, live=live, feature_blocks=features.get(client, ()), collapse=collapse, layout=layout
        )
        for client in present
    }
    begun = replace(
        state,
        memories=replace(memories, participants=participants),
        collapses=state.collapses + (collapse and state.anchor.round_id > 0),
    )
    return begun, CorrectiveRound(
        id=round_id,
        closing=closing,
        present=present,
        absences=not_there(frozenset(layout.clients) - available),
        certifying=closing or is_due(round_id, settings.certificate_every),
        complete=len(live) == len(layout.blocks),
        live=live,
        starts=starts,
    )


def _round_start(
    client: ClientId,
    state: CorrectiveState,
    *,
    live: frozenset[int],
    feature_blocks: tuple[int, ...],
    collapse: bool,
    layout: FederationLayout,
) -> RoundStart:
    def features_of(blocks: Mapping[int, Vector]) -> BlockVector | None:
        return joined_on(layout.feature_index.of(client), blocks)

    start = RoundStart(
        memory_round=state.memories.round_id,
        anchor_round=state.anchor.round_id,
        collapse=collapse,
        restored=None,
        live_blocks=tuple(block for block in layout.sample_index.of(client) if block in live),
        report_blocks=tuple(block for block in layout.reporters.get(client, ()) if block in live),
        feature_blocks=feature_blocks,
    )
    if not collapse:
        return replace(
            start,
            point=features_of(state.pending.point),
            vertex=features_of(state.pending.vertex),
            conjugates_and_products=state.pending.conjugates_and_products,
        )
    if client in state.memories.intact:
        return start
    anchor = Anchor(
        alpha=joined_on(layout.sample_index.of(client), state.anchor.alpha),
        weights=features_of(state.anchor.weights),
        model=features_of(state.model),
    )
    return replace(start, restored=anchor)


def dual_tasks(
    current: CorrectiveRound,
    norms: Mapping[int, Vector],
    *,
    knowing_norms: Set[ClientId],
    layout: FederationLayout,
) -> dict[ClientId, DualTask]:
    """The tasks of `local_dual`, with `norms` for all clients but those that know them."""
    sums = _summed_products(current.products)
    index, label_holders = layout.sample_index, layout.label_index.holders
    live_samples = sum(index.sizes[block] for block in current.live)
    tasks = {}
    for client, start in current.starts.items():
        shared = [block for block in start.live_blocks if block in index.shared]
        tasks[client] = DualTask(
            round_start=None if current.products else start,
            round_id=current.id,
            norms=None if client in knowing_norms else joined(index.shared_of(client), norms),
            products=None if sums is None else sums.on(shared),
            divisors=tuple(len(label_holders[block]) for block in start.live_blocks),
            scale=live_samples / sum(index.sizes[block] for block in start.live_blocks),
            certify_only=current.closing,
        )
    return tasks


@dataclass(frozen=True, slots=True)
class _SummedProducts:
    """The sums of all clients' `Products`, by block of samples."""

    points: Mapping[int, Vector]
    vertices: Mapping[int, Vector]
    gram: Vector

    def on(self, blocks: list[int]) -> Products:
        vertex = joined(blocks, self.vertices) if self.vertices else None
        return Products(joined(blocks, self.points), vertex, self.gram)


def _summed_products(products: Mapping[ClientId, Products]) -> _SummedProducts | None:
    if not products:
        return None
    return _SummedProducts(
        points=summed(answer.point for answer in products.values()),
        vertices=summed(answer.vertex for answer in products.values()),
        gram=total([answer.gram for answer in products.values()]),
    )


def primal_tasks(current: CorrectiveRound, *, vertices: bool) -> dict[ClientId, PrimalTask]:
    """The tasks of `primal`; `vertices` says whether the clients can compute vertices."""
    points = summed(answer.point for answer in current.duals.values())
    figures = total([answer.figures for answer in current.duals.values()])
    return {
        client: PrimalTask(
            round_id=current.id,
            point=None if current.closing else joined(start.live_blocks, points),
            figures=figures,
            relative=not current.complete,
            vertex=vertices and not current.closing,
            report=current.reports_objectives,
        )
        for client, start in current.starts.items()
    }


def updated_samples(current: CorrectiveRound, layout: FederationLayout) -> int:
    """The number of samples for which clients gave a solution; a sample counts once for each of these clients."""
    return sum(
        layout.sample_index.sizes[block]
        for client, answer in current.duals.items()
        if answer.point is not None
        for block in current.starts[client].live_blocks
    )
