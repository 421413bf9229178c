"""What the server keeps of a HyFDCA run: vectors by block, and none that it reads.

The server adds what the clients gave. α of a block starts at zero, which needs no ciphertext; a client's inner products
and its share of the model count as zero until it first gives them, as Algorithm 1 begins.
"""

from collections.abc import Iterable, Mapping, Sequence

from fenchel_common.algorithms.hyfdca import BlockVector
from fenchel_common.crypto.vectors import Vector, join, total
from fenchel_common.errors import StateDamaged
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.layout import FederationLayout
from fenchel_common.wire.hyfdca_snapshot import ClientSnapshot


class HyfdcaState:
    """Durable state of a run between rounds: `alpha`, `changed`, `norms`, `shares`, `synced`, `products`, `model`.

    Attributes
    ----------
    held
        For each client the sizes of its blocks, by ascending id.
    shared
        The blocks with more than one holder.
    changed
        In which round a block of α last changed.
    shares
        Each client's X_kᵀα/(λN), by block of features.
    synced
        The round whose α a client's share is made of.
    model
        The w that entered the last round, by block of features; a block is missing while it is zero.
    """

    def __init__(self, layout: FederationLayout) -> None:
        self._layout = layout
        self._feature_blocks = layout.feature_blocks()
        self.held = {
            client: {block: layout.blocks[block].size for block in layout.blocks_of(client)}
            for client in layout.clients
        }
        self.shared = frozenset(block.id for block in layout.blocks if len(block.holders) > 1)
        self.alpha: dict[int, Vector] = {}
        self.changed: dict[int, RoundId] = {}
        self.norms: dict[int, Vector] = {}
        self.shares: dict[ClientId, dict[int, Vector]] = {client: {} for client in layout.clients}
        self.synced: dict[ClientId, RoundId] = dict.fromkeys(layout.clients, RoundId(0))
        self.products: dict[ClientId, dict[int, Vector]] = {client: {} for client in layout.clients}
        self.model: dict[int, Vector] = {}
        self._sums: dict[int, Vector] = {}

    def changed_since(self, client: ClientId, round_id: RoundId) -> list[int]:
        """The client's blocks whose α has changed after a round, ascending."""
        return [block for block in self.held[client] if self.changed.get(block, 0) > round_id]

    def is_stale(self, client: ClientId) -> bool:
        """Whether the client's share of the model is made of an older α than the present one."""
        return bool(self.changed_since(client, self.synced[client]))

    def stale_clients(self) -> tuple[ClientId, ...]:
        return tuple(client for client in self._layout.clients if self.is_stale(client))

    def reporters(self) -> dict[ClientId, tuple[int, ...]]:
        """The blocks of samples that each reporter answers for; of each block it is the first label holder."""
        blocks: dict[ClientId, list[int]] = {}
        for block in self._layout.blocks:
            blocks.setdefault(self._layout.label_holders_of(block.id)[0], []).append(block.id)
        return {client: tuple(ids) for client, ids in blocks.items()}

    def norm_holders(self) -> dict[ClientId, tuple[int, ...]]:
        """The blocks of features that each client answers for; of each block it is the first holder."""
        blocks: dict[ClientId, list[int]] = {}
        for block in self._feature_blocks:
            blocks.setdefault(block.holders[0], []).append(block.id)
        return {client: tuple(ids) for client, ids in blocks.items()}

    def take_share(self, client: ClientId, share: BlockVector, synced: RoundId) -> None:
        self.shares[client] = dict(blocks_of(share))
        self.synced[client] = synced
        for block in share.blocks:
            self._sums.pop(block, None)

    def summed_shares(self) -> dict[int, Vector]:
        """w by block of features; a block whose shares have not changed is the same object as before."""
        for block in self._feature_blocks:
            given = [self.shares[k][block.id] for k in block.holders if block.id in self.shares[k]]
            if given and block.id not in self._sums:
                self._sums[block.id] = total(given)
        return dict(self._sums)

    def model_of(self, client: ClientId) -> BlockVector | None:
        """The model that entered the last round, on a client's features."""
        held = [block.id for block in self._feature_blocks if client in block.holders and block.id in self.model]
        return joined(held, self.model)

    def add_changes(self, changes: Iterable[BlockVector], round_id: RoundId) -> frozenset[int]:
        """Adds the clients' enc(γ/|B_n|·Δα) to enc(α); the blocks that changed."""
        by_block: dict[int, list[Vector]] = {}
        for change in changes:
            for block, vector in blocks_of(change):
                by_block.setdefault(block, []).append(vector)
        for block, vectors in by_block.items():
            before = [self.alpha[block]] if block in self.alpha else []
            self.alpha[block] = total([*before, *vectors])
            self.changed[block] = round_id
        return frozenset(by_block)

    def alpha_of(self, blocks: Sequence[int]) -> BlockVector | None:
        return joined(blocks, self.alpha)

    def norms_of(self, client: ClientId) -> BlockVector | None:
        return joined([block for block in self.held[client] if block in self.shared], self.norms)

    def keep_products(self, client: ClientId, products: BlockVector) -> None:
        self.products[client].update(blocks_of(products))

    def products_of(self, blocks: Sequence[int]) -> BlockVector | None:
        """enc(x_i·w): for each block the sum over its holders of the last inner products that each has given."""
        sums = {}
        for block in blocks:
            holders = self._layout.blocks[block].holders
            sums[block] = total([self.products[k][block] for k in holders if block in self.products[k]])
        return joined(blocks, sums)

    def add_norms(self, openings: Mapping[ClientId, BlockVector]) -> None:
        by_block: dict[int, list[Vector]] = {}
        for opening in openings.values():
            for block, vector in blocks_of(opening):
                by_block.setdefault(block, []).append(vector)
        self.norms = {block: total(vectors) for block, vectors in by_block.items()}

    def client_snapshots(self) -> dict[ClientId, ClientSnapshot]:
        return {
            client: ClientSnapshot(self.shares[client], self.synced[client], self.products[client])
            for client in self._layout.clients
        }

    def take_client_snapshots(self, clients: Mapping[ClientId, ClientSnapshot]) -> None:
        if set(clients) != set(self._layout.clients):
            raise StateDamaged("the snapshot is of other clients than the layout")
        for client, state in clients.items():
            held = {block.id for block in self._feature_blocks if client in block.holders}
            if state.share and state.share.keys() != held:
                raise StateDamaged(f"the snapshot has other features of {client} than the layout")
            self.shares[client] = dict(state.share)
            self.synced[client] = state.synced
            self.products[client] = dict(state.products)


def blocks_of(vector: BlockVector) -> list[tuple[int, Vector]]:
    """Each block with its own part of the vector."""
    return [(block, vector.vector.select([place])) for place, block in enumerate(vector.blocks)]


def joined(blocks: Sequence[int], vectors: Mapping[int, Vector]) -> BlockVector | None:
    """The vectors of these blocks as one; None if there is none."""
    if not blocks:
        return None
    return BlockVector(tuple(blocks), join([vectors[block] for block in blocks]))
