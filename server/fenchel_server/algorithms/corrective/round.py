"""A round of corrective HyFDCA at the server: how it begins, and the tasks of its phases.

All functions here are pure. A block of samples is *live* in a round if all its holders are available. The clients of
live blocks take part; all other blocks keep their α.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from fenchel_common.algorithms.corrective.messages import (
    FIGURES_FIELD,
    GRAM_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    Anchor,
    DualTask,
    PrimalTask,
    Products,
    RoundChoices,
    RoundStart,
)
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.settings import is_due
from fenchel_common.blocks import BlockSum, BlockVector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.corrective_snapshot import CorrectiveState
from fenchel_server.algorithms.intake import PhaseSums
from fenchel_server.algorithms.phased import RoundUnderWay, not_there


@dataclass(frozen=True, slots=True)
class ClientBlocks:
    """One client's live blocks of samples, and the live blocks of samples and blocks of features it reports on.

    `told` are those of the blocks of samples it reports on that a client without labels holds too.
    """

    live: tuple[int, ...]
    reports: tuple[int, ...]
    features: tuple[int, ...]
    told: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class CorrectiveRound(RoundUnderWay):
    """A round under way: what its beginning fixes, and the answers so far.

    Attributes
    ----------
    certifying
        Whether a certificate is due.
    complete
        Whether all blocks of samples are live. Only then is P known, and a certificate possible.
    live, live_samples
        The live blocks of samples, and how many samples they have.
    collapse
        Whether the clients forget all but the anchor and the best model.
    blank
        Whether no anchor and no best model is on record yet. Both are zero, and nobody sends their products by sample.
    leg, leg_over, last_leg
        The number of the leg, whether it ends with this round although the gap may not be reached, and whether it is
        the run's last one.
    blocks
        The blocks of each client that takes part.
    starts
        The `RoundStart` of each client that takes part.
    products, duals
        The sums of the answers to `inner_product` and to `local_dual`; None until a phase has ended.
    """

    certifying: bool
    complete: bool
    live: frozenset[int]
    live_samples: int
    collapse: bool
    blank: bool
    leg: int
    leg_over: bool
    last_leg: bool
    blocks: Mapping[ClientId, ClientBlocks]
    starts: Mapping[ClientId, RoundStart]
    products: PhaseSums | None = None
    duals: PhaseSums | None = None

    @property
    def choices(self) -> RoundChoices:
        """What the record of the round's beginning says."""
        return RoundChoices(frozenset(self.blocks), self.collapse, self.closing, self.live_samples, self.leg)

    @property
    def reports_objectives(self) -> bool:
        """Whether the clients report the objectives, from which the server makes a certificate."""
        return self.certifying and self.complete


def begins_anew(
    state: CorrectiveState, round_id: RoundId, available: frozenset[ClientId], layout: FederationLayout
) -> bool:
    """Whether a round begins with a collapse: the clients forget all but the anchor and the best model.

    So it is if other clients take part than before, if the memory of one is not intact, or if the last round stored no
    memories. In these cases the other points would change blocks that are not live, or a client does not know them.
    """
    participants, memories = participants_of(available, layout), state.memories
    continued = participants == memories.participants and participants <= memories.intact
    return not continued or memories.round_id != round_id - 1


def participants_of(available: frozenset[ClientId], layout: FederationLayout) -> frozenset[ClientId]:
    """Those of the available clients that hold live blocks."""
    live = layout.sample_index.complete(available)
    return frozenset(client for client in layout.clients if not live.isdisjoint(layout.sample_index.of(client)))


def begin_round(
    state: CorrectiveState,
    round_id: RoundId,
    available: frozenset[ClientId],
    *,
    closing: bool,
    settings: CorrectiveSettings,
    layout: FederationLayout,
) -> tuple[CorrectiveState, CorrectiveRound]:
    """The round that begins with the available clients, and the state with its participants."""
    index, memories = layout.sample_index, state.memories
    live, participants = index.complete(available), participants_of(available, layout)
    present = [client for client in layout.clients if client in participants]
    collapse = begins_anew(state, round_id, available, layout)
    features = layout.feature_index.first_holders(participants)
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
        live_samples=sum(index.sizes[block] for block in live),
        collapse=collapse,
        blank=not state.model.pieces and state.anchor.round_id == 0,
        leg=state.progress.leg,
        leg_over=settings.leg_is_over(state.progress, round_id),
        last_leg=settings.path is None or settings.path.is_last(state.progress),
        blocks={
            client: ClientBlocks(
                live=tuple(block for block in index.of(client) if block in live),
                reports=tuple(block for block in layout.reporters.get(client, ()) if block in live),
                features=features.get(client, ()),
                told=tuple(
                    block
                    for block in layout.reporters.get(client, ())
                    if block in live and not layout.label_holders.issuperset(index.holders[block])
                ),
            )
            for client in present
        },
        starts={
            client: _round_start(client, state, collapse=collapse, told=settings.path is not None, layout=layout)
            for client in present
        },
    )


def _round_start(
    client: ClientId, state: CorrectiveState, *, collapse: bool, told: bool, layout: FederationLayout
) -> RoundStart:
    """What a client needs to begin; `told` says that in a collapse every client gets the anchor and the best model.

    That is so with several λ: the models that clients remember are scaled, and rounding would not give what is on
    record.
    """

    def features_of(sums: BlockSum) -> BlockVector | None:
        return sums.within(layout.feature_index.of(client))

    if not collapse:
        return RoundStart(
            point=features_of(state.pending.point),
            vertex=features_of(state.pending.vertex),
            conjugates_and_products=state.pending.conjugates_and_products,
        )
    if client in state.memories.intact and not told:
        return RoundStart()
    return RoundStart(
        restored=Anchor(
            alpha=state.anchor.alpha.within(layout.sample_index.of(client)),
            weights=features_of(state.anchor.weights),
            model=features_of(state.model),
        )
    )


def dual_tasks(
    current: CorrectiveRound,
    norms: BlockSum,
    *,
    knowing_norms: Set[ClientId],
    layout: FederationLayout,
) -> dict[ClientId, DualTask]:
    """The tasks of `local_dual`, with `norms` for all clients but those that know them."""
    sums, index = current.products, layout.sample_index
    tasks: dict[ClientId, DualTask] = {}
    made: dict[object, DualTask] = {}
    for client, blocks in current.blocks.items():
        shared = tuple(block for block in blocks.live if block in index.shared)
        lacking = None if client in knowing_norms else index.shared_of(client)
        # Clients with the same blocks get the same task.
        same = (shared, lacking, client if sums is None else None)
        if same not in made:
            made[same] = DualTask(
                round_start=current.starts[client] if sums is None else None,
                norms=None if lacking is None else norms.on(lacking),
                products=None if sums is None else _products_on(shared, sums),
            )
        tasks[client] = made[same]
    return tasks


def check_memories(products: PhaseSums) -> None:
    """Raises `InvalidInput` if the answers to `inner_product` show that clients remember different points."""
    products.total(GRAM_FIELD)


def _products_on(blocks: Sequence[int], sums: PhaseSums) -> Products:
    gram = sums.total(GRAM_FIELD)
    assert gram is not None, "every answer has a part of the Gram matrix"
    given = (sums.by_block(name) for name in (POINT_FIELD, VERTEX_FIELD))
    point, vertex = (one.on(blocks) if one.pieces else None for one in given)
    return Products(point, vertex, gram)


def primal_tasks(current: CorrectiveRound, layout: FederationLayout) -> dict[ClientId, PrimalTask]:
    """The tasks of `primal`."""
    assert current.duals is not None, "`primal` follows `local_dual`"
    points, vertices = (current.duals.by_block(name) for name in (POINT_FIELD, VERTEX_FIELD))
    figures = current.duals.total(FIGURES_FIELD)
    assert figures is not None, "every answer has figures"
    tasks: dict[ClientId, PrimalTask] = {}
    made: dict[object, PrimalTask] = {}
    for client, blocks in current.blocks.items():
        told = not current.closing and client not in layout.label_holders
        same = (blocks.live, told)
        if same not in made:
            made[same] = PrimalTask(
                point=None if current.closing else points.on(blocks.live),
                figures=figures,
                vertex=vertices.on(blocks.live) if told else None,
            )
        tasks[client] = made[same]
    return tasks
