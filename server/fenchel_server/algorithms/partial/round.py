"""A round with some of the parties at the server: who takes part, and what it is for."""

from collections.abc import Collection
from dataclasses import dataclass, field

from fenchel_common.algorithms.partial.messages import OfPair, RoundChoices
from fenchel_common.algorithms.partial.progress import Progress
from fenchel_common.algorithms.partial.rounds import due_clients, may_measure, trains
from fenchel_common.algorithms.partial.settings import PartialSettings
from fenchel_common.crypto.vectors import Vector
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.partial_snapshot import PartialState, SumsOfPair
from fenchel_server.algorithms.certificate import Certificate
from fenchel_server.algorithms.partial.facts import Told
from fenchel_server.algorithms.phased import RoundUnderWay, not_there


@dataclass(slots=True, kw_only=True)
class PartialRound(RoundUnderWay):
    """A round under way.

    Attributes
    ----------
    choices
        As in the record with which the round began.
    progress, state
        Those after the newest phase that counts.
    told
        What each client has got, with the tasks of this round.
    measures
        Whether the round measures the model.
    measured, figures, values
        The sums of the inner products with mean and anchor, of the figures, and of the values of the new pair.
    moved
        Whether the anchor is another one than before the round.
    certificate, better
        In a round that measures: the certificate of the best model so far, and whether it is the one that was measured.
    """

    choices: RoundChoices
    layout: FederationLayout
    progress: Progress
    state: PartialState
    told: dict[ClientId, Told]
    measures: bool
    measured: SumsOfPair = field(default_factory=SumsOfPair)
    figures: Vector | None = None
    values: SumsOfPair = field(default_factory=SumsOfPair)
    moved: bool = False
    certificate: Certificate | None = None
    better: bool = False

    def live_of(self, client: ClientId) -> tuple[int, ...]:
        """The client's blocks on which the new pair differs from the anchor."""
        if not self.choices.owners:
            return ()
        return live_blocks(self.layout.sample_index.of(client), self.choices.participants, self.layout)

    def reports_of(self, client: ClientId) -> tuple[int, ...]:
        """The live blocks of which the client is the first label holder that takes part."""
        holders = self.layout.sample_index.holders
        there = self.choices.participants & self.layout.label_holders
        first = {block: next(one for one in holders[block] if one in there) for block in self.live_of(client)}
        return tuple(block for block, holder in first.items() if holder == client)

    def features_of(self, client: ClientId) -> tuple[int, ...]:
        """The blocks of features of which the client is the first holder that takes part."""
        return tuple(self.layout.feature_index.first_holders(self.choices.participants).get(client, ()))

    def measured_for(self, client: ClientId) -> OfPair | None:
        """The inner products of the client's shared rows with the two models that are measured."""
        shared = frozenset(self.layout.sample_index.shared_of(client))
        return self.measured.within(shared) if self.measures and shared else None


def live_blocks(
    blocks: Collection[int], participants: frozenset[ClientId], layout: FederationLayout
) -> tuple[int, ...]:
    """Those of the blocks of which a label holder takes part."""
    there = participants & layout.label_holders
    return tuple(block for block in blocks if not there.isdisjoint(layout.sample_index.holders[block]))


def begin_round(
    round_id: RoundId,
    available: frozenset[ClientId],
    *,
    closing: bool,
    settings: PartialSettings,
    layout: FederationLayout,
    progress: Progress,
    state: PartialState,
    told: dict[ClientId, Told],
) -> PartialRound:
    """The round that begins with the available clients."""
    due = due_clients(settings, layout.clients, round_id, closing=closing)
    participants, index = due & available, layout.sample_index
    if progress.void and settings.trains_everybody and not closing and progress.round.participants <= participants:
        # They give the same again, and to nobody's sum but the same (docs/crypto.md); the others wait for a round.
        participants = progress.round.participants
    live: tuple[int, ...] = ()
    if trains(settings, round_id, closing=closing):
        live = live_blocks(range(len(index.sizes)), participants, layout)
    choices = RoundChoices(
        participants=participants,
        owners=frozenset(holder for block in live for holder in index.holders[block]),
        closing=closing,
        live_samples=sum(index.sizes[block] for block in live),
    )
    everybody = participants == frozenset(layout.clients)
    progress = progress.begun(round_id, choices, everybody=everybody)
    return PartialRound(
        id=round_id,
        closing=closing,
        present=[client for client in layout.clients if client in participants],
        absences=not_there(due - available),
        choices=choices,
        layout=layout,
        progress=progress,
        state=state,
        told={client: told.get(client, Told()) for client in participants},
        measures=everybody and progress.knows_anchor and may_measure(settings, round_id, closing=closing),
    )
