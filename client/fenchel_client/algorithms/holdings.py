"""A party's rows in the order of the blocks, and the way between values and vectors of whole blocks.

Rows are in the order of the layout's blocks, columns sorted by name: X (n, m), y and other values by sample (n,),
values by feature (m,).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector, pack, unpack
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.crypto.vectors import Cipher, PlainCipher, Vector
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss
from fenchel_common.objectives import squared_row_norms
from fenchel_common.privacy import Privacy

Array = NDArray[np.float64]
Positions = NDArray[np.int64]


class Holdings:
    """What a party holds, ready for vectors.

    Parameters
    ----------
    cipher
        Encrypts values by sample, always, and in a sealed run all others too.
    """

    def __init__(
        self,
        *,
        layout: ClientLayout,
        shard: Shard,
        cipher: Cipher,
        key: RunKey,
        privacy: Privacy,
        loss: Loss,
    ) -> None:
        self.X = arranged_matrix(shard, layout)
        self._y = None if shard.y is None else shard.y[layout.rows]
        if self._y is not None:
            loss.check_labels(self._y)
        ends = layout.offsets
        self._span = {
            int(block): (int(ends[place]), int(ends[place + 1])) for place, block in enumerate(layout.block_ids)
        }
        self.shared = frozenset(int(block) for block in layout.block_ids[layout.shared])
        self.sample_count = layout.sample_count
        self.features_apart = not layout.ignored
        """Whether nobody else gives a feature of this party's for a sample of its."""
        self._feature_blocks = layout.feature_blocks
        self._cipher = cipher
        self._share_cipher = cipher if key.by_feature(privacy) == key else PlainCipher(key.bits)

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(self._span)

    @property
    def has_labels(self) -> bool:
        return self._y is not None

    def labels(self) -> Array:
        if self._y is None:
            raise InvalidInput("local_dual: this client has no labels and cannot update or report")
        return self._y

    def size(self, block: int) -> int:
        start, stop = self._span[block]
        return stop - start

    def start(self, block: int) -> int:
        """Where the block's first sample stands."""
        return self._span[block][0]

    def positions(self, blocks: Sequence[int]) -> Positions:
        pieces = [np.arange(*self._span[block]) for block in blocks]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def features_of(self, blocks: Sequence[int]) -> Positions:
        """The features of these blocks, ascending: sums over them do not depend on the server's order of features."""
        return np.sort(self.feature_positions(blocks))

    def feature_positions(self, blocks: Sequence[int]) -> Positions:
        pieces = [self._feature_blocks[block] for block in blocks]
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def to_blocks(self, blocks: Sequence[int], values: Array, vector_format: VectorFormat) -> BlockVector:
        """Values by sample, of which those in `blocks` are encrypted."""
        chosen = values[self.positions(blocks)]
        return pack(chosen, blocks, self._sizes(blocks), cipher=self._cipher, vector_format=vector_format)

    def from_blocks(self, vector: BlockVector) -> Array:
        """The values at `positions(vector.blocks)`."""
        return unpack(vector, self._sizes(vector.blocks), cipher=self._cipher)

    def duals_from(self, alpha: BlockVector) -> Array:
        """Dual variables at `positions(alpha.blocks)`.

        y·α lies in [0, 1] whatever honest parties add up; what rounding does to that is put right. Values beyond it are
        refused: with them steps and certificates mean nothing, and the model could be made to tell of single rows.
        """
        held, values = self.positions(alpha.blocks), self.from_blocks(alpha)
        feasible = self.feasible(held, values)
        wrong = np.abs(values - feasible) > alpha.vector.format.error_bound(alpha.vector.terms)
        if wrong.any():
            blocks = np.repeat(alpha.blocks, self._sizes(alpha.blocks))[wrong]
            raise InvalidInput(
                f"the dual variables of {len(np.unique(blocks))} blocks came back impossible: a party that holds the "
                "same samples, or the server, has altered them"
            )
        return feasible

    def feasible(self, positions: Positions, values: Array) -> Array:
        """The feasible dual variables nearest to the values, as far as this party can tell."""
        if self._y is None:
            return np.clip(values, -1.0, 1.0)
        y = self._y[positions]
        return np.asarray(y * np.clip(y * values, 0.0, 1.0), dtype=np.float64)

    def to_features(self, values: Array, blocks: Sequence[int] | None = None) -> BlockVector:
        """Values by feature, whole blocks of them: always all of a block, so that nobody learns which entries moved."""
        chosen = tuple(self._feature_blocks) if blocks is None else tuple(blocks)
        given = values[self.feature_positions(chosen)]
        sizes = self._feature_sizes(chosen)
        return pack(given, chosen, sizes, cipher=self._share_cipher, vector_format=PRODUCT_FORMAT)

    def from_features(self, vector: BlockVector) -> Array:
        """Values by feature; zero in blocks that the vector does not have."""
        values = np.zeros(self.width)
        opened = unpack(vector, self._feature_sizes(vector.blocks), cipher=self._share_cipher)
        values[self.feature_positions(vector.blocks)] = opened
        return values

    def to_figures(self, figures: Array) -> Vector:
        return self._share_cipher.encrypt(figures, PRODUCT_FORMAT)

    def from_figures(self, figures: Vector) -> Array:
        return self._share_cipher.decrypt(figures)

    def whole_norms(self, norms: BlockVector) -> Array:
        """‖x_i‖² of whole rows: from the secure sum where others hold a part."""
        if norms.blocks != tuple(sorted(self.shared)):
            raise InvalidInput("norms.blocks: must be all blocks that this client shares")
        whole = squared_row_norms(self.X)
        # The sum of rounded parts can be a hair below zero where all parts are zero.
        whole[self.positions(norms.blocks)] = np.maximum(self.from_blocks(norms), 0.0)
        return whole

    def _sizes(self, blocks: Sequence[int]) -> list[int]:
        return [self.size(block) for block in blocks]

    def _feature_sizes(self, blocks: Sequence[int]) -> list[int]:
        return [len(self._feature_blocks[block]) for block in blocks]


def arranged_matrix(shard: Shard, layout: ClientLayout) -> Matrix:
    """The shard's matrix with rows in the order of the blocks, columns sorted by name, ignored entries zero."""
    order = np.argsort(np.array(shard.features, dtype=object), kind="stable")
    X = shard.X[layout.rows][:, order]
    place_of = {int(block): place for place, block in enumerate(layout.block_ids)}
    offsets = layout.offsets
    for cut in layout.ignored:
        rows = np.zeros(len(layout.rows), dtype=bool)
        for block in cut.block_ids:
            place = place_of[int(block)]
            rows[offsets[place] : offsets[place + 1]] = True
        X = _without(X, rows, cut.features)
    return X


def _without(X: Matrix, rows: NDArray[np.bool_], columns: NDArray[np.int64]) -> Matrix:
    if not isinstance(X, csr_array):
        kept = X.copy()
        kept[np.ix_(np.flatnonzero(rows), columns)] = 0.0
        return kept
    entries = X.tocoo()
    keep = ~(rows[entries.row] & np.isin(entries.col, columns))
    return csr_array((entries.data[keep], (entries.row[keep], entries.col[keep])), shape=X.shape)
