"""The server's state of a HyFDCA run: vectors by block, none of which the server can read.

The server adds the clients' vectors. α of a block begins at zero, which needs no ciphertext. A client's inner products
and its contribution to the model count as zero until it first gives them, as at the beginning of Algorithm 1.
"""

from collections.abc import Collection, Mapping, Sequence

from fenchel_common.blocks import BlockSum, BlockVector, joined, joined_on, summed_parts
from fenchel_common.crypto.vectors import Vector
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.hyfdca_snapshot import ClientSnapshot
from fenchel_server.algorithms.phased import OTHER_CLIENTS

Model = Mapping[int, Vector]
"""w by block of features; a block is missing while it is zero."""


class HyfdcaState:
    """The durable state of a run between rounds.

    Attributes
    ----------
    alpha
        α by block of samples; a block is missing while it is zero.
    changed
        The round in which each block of α last changed.
    norms
        The squared row norms of shared blocks.
    contributions
        Each client's X_kᵀα/(λN), by block of features.
    synced
        For each client the round whose α its contribution is made of.
    products
        Each client's last inner products, by block of samples.
    model
        The w that entered the last round, by block of features; a block is missing while it is zero.
    """

    def __init__(self, layout: FederationLayout) -> None:
        self._layout = layout
        self.alpha: dict[int, Vector] = {}
        self.changed: dict[int, RoundId] = {}
        self.norms: dict[int, Vector] = {}
        self.contributions: dict[ClientId, dict[int, Vector]] = {client: {} for client in layout.clients}
        self.synced: dict[ClientId, RoundId] = dict.fromkeys(layout.clients, RoundId(0))
        self.products: dict[ClientId, dict[int, Vector]] = {client: {} for client in layout.clients}
        self.model: dict[int, Vector] = {}
        self._sums: dict[int, Vector] = {}

    def changed_since(self, client: ClientId, round_id: RoundId) -> list[int]:
        """The client's blocks whose α has changed after a round, ascending."""
        return [block for block in self._layout.sample_index.of(client) if self.changed.get(block, 0) > round_id]

    def is_stale(self, client: ClientId) -> bool:
        """Whether the client's contribution to the model is made of an older α than the present one."""
        return bool(self.changed_since(client, self.synced[client]))

    def stale_clients(self) -> tuple[ClientId, ...]:
        return tuple(client for client in self._layout.clients if self.is_stale(client))

    def take_contribution(
        self, client: ClientId, contribution: BlockVector, synced: RoundId, *, void: Collection[int]
    ) -> None:
        """Keeps a client's contribution to the model, but for the blocks in `void`; with such, it stays out of date."""
        kept = {block: part for block, part in contribution.parts().items() if block not in void}
        self.contributions[client] |= kept
        if len(kept) == len(contribution.blocks):
            self.synced[client] = synced
        for block in kept:
            self._sums.pop(block, None)

    def summed_contributions(self) -> dict[int, Vector]:
        """w by block of features; a block whose contributions have not changed is the same object as before."""
        self._sums |= summed_parts(
            {block: part for block, part in contribution.items() if block not in self._sums}
            for contribution in self.contributions.values()
        )
        return dict(self._sums)

    def model_of(self, client: ClientId) -> BlockVector | None:
        """The model that entered the last round, on a client's features."""
        return joined_on(self._layout.feature_index.of(client), self.model)

    def restate(self, restated: BlockSum) -> None:
        """Replaces enc(α) in these blocks by fresh vectors of the same values."""
        self.alpha |= restated.parts()

    def add_changes(self, changes: BlockSum, round_id: RoundId, *, void: Collection[int]) -> frozenset[int]:
        """Adds the sums of the clients' enc(γ/|B_n|·Δα) to enc(α), but for the blocks in `void`.

        Returns the blocks that changed.
        """
        change = {block: part for block, part in changes.parts().items() if block not in void}
        before = {block: self.alpha[block] for block in change if block in self.alpha}
        self.alpha |= summed_parts([before, change])
        self.changed |= dict.fromkeys(change, round_id)
        return frozenset(change)

    def alpha_of(self, blocks: Sequence[int]) -> BlockVector | None:
        return joined(blocks, self.alpha)

    def norms_of(self, client: ClientId) -> BlockVector | None:
        return joined(self._layout.sample_index.shared_of(client), self.norms)

    def keep_products(self, client: ClientId, products: BlockVector, *, void: Collection[int]) -> None:
        """Keeps a client's inner products, but for the blocks in `void`."""
        self.products[client] |= {block: part for block, part in products.parts().items() if block not in void}

    def products_of(self, blocks: Sequence[int]) -> BlockVector | None:
        """enc(x_i·w): for each block the sum over its holders of the last inner products that each has given."""
        wanted = [{block: parts[block] for block in blocks if block in parts} for parts in self.products.values()]
        return joined(blocks, summed_parts(wanted))

    def client_snapshots(self) -> dict[ClientId, ClientSnapshot]:
        return {
            client: ClientSnapshot(self.contributions[client], self.synced[client], self.products[client])
            for client in self._layout.clients
        }

    def take_client_snapshots(self, clients: Mapping[ClientId, ClientSnapshot]) -> None:
        if set(clients) != set(self._layout.clients):
            raise StateDamaged(OTHER_CLIENTS)
        for client, state in clients.items():
            if not state.contribution.keys() <= self._layout.feature_index.of(client).keys():
                raise StateDamaged(f"the snapshot has other features of {client} than the layout")
            self.contributions[client] = dict(state.contribution)
            self.synced[client] = state.synced
            self.products[client] = dict(state.products)
