"""The moments of a party's features over all their holders, before the first round.

The holders of a feature give the count, sum and sum of squares of their own values, encrypted; the server adds them up,
and each holder opens the sums. Moments of features that nobody else holds stay within the party.

Protects: the server sees ciphertext. A sum opens only if it is the sum over all holders of the feature.

Does not protect: where exactly two parties hold a feature, each learns the other's count, mean and variance by
subtracting its own; over few values these tell much of each.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from fenchel_client.algorithms.codec import BlockCodec, all_holders, together
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.table import PartyTable
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import DataUnfit, InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.moments import MOMENT_FIELDS, Moments, column_moments

Array = NDArray[np.float64]

FIELD: Final = "moments-{}"


class FeatureMoments:
    """A party's part in the sums of moments.

    Parameters
    ----------
    layout
        The party's layout, with features counted as columns of `table`.
    cipher
        That of vectors by sample, which encrypts at every level that has a key.

    Attributes
    ----------
    blocks
        The blocks of features that others hold too.
    """

    def __init__(self, layout: ClientLayout, table: PartyTable, *, cipher: Cipher, seal: Seal) -> None:
        self._layout = layout
        self._own = own_moments(table, layout)
        self.blocks = tuple(block for block, held_by in layout.feature_holders.items() if len(held_by) > 1)
        self._codec = BlockCodec(
            "features",
            layout.feature_blocks,
            sorted(table.features),
            layout.feature_holders,
            layout.feature_slots,
            cipher,
            seal,
        )

    def contribution(self) -> tuple[BlockVector, ...]:
        """The encrypted moments of the features that others hold too; none without such features."""
        if not self.blocks:
            return ()
        return tuple(
            self._codec.to_blocks(FIELD.format(number), limbs, self.blocks, PRODUCT_FORMAT, among=together(all_holders))
            for number, limbs in enumerate(self._own.limbs())
        )

    def whole(self, sums: Sequence[BlockVector], given: Mapping[ClientId, Stamp]) -> Moments:
        """The moments over all holders, from their sums; raises as `Seal.open` does, or `InvalidInput`."""
        if len(sums) != (MOMENT_FIELDS if self.blocks else 0) or any(one.blocks != self.blocks for one in sums):
            raise InvalidInput("sums: must be over the holders of all features for which this party gave moments")
        opened = [self._opened(number, one, given) for number, one in enumerate(sums)]
        if not opened:
            return self._own
        return self._own.put(self._codec.positions_of(self.blocks).tolist(), Moments.from_limbs(np.array(opened)))

    def _opened(self, number: int, sums: BlockVector, given: Mapping[ClientId, Stamp]) -> Array:
        def origins(block: int) -> list[Origin]:
            return [Origin(given[holder], FIELD.format(number)) for holder in self._layout.feature_holders[block]]

        return self._codec.from_blocks(sums, origins)


def own_moments(table: PartyTable, layout: ClientLayout) -> Moments:
    """The moments of the party's own values: of rows that the run uses, without missing cells.

    Entries that an earlier party gives are left out too.
    """
    found = []
    for name, (values, zeros) in zip(sorted(table.features), own_columns(table, layout), strict=True):
        try:
            found.append(column_moments(values, zeros))
        except InvalidInput as error:
            raise DataUnfit(f"column {name!r}: {error}", public_reason="its data do not fit this run") from error
    counts, sums, squares = zip(*found, strict=True)
    return Moments(counts, sums, squares)


def own_columns(table: PartyTable, layout: ClientLayout) -> Iterator[tuple[Array, int]]:
    """For each feature, sorted by name, the party's own values that count, and how many zeros there are besides."""
    X, given = table.matrix(layout), _given_by_others(layout)
    if isinstance(X, csr_array):
        columns = _sparse_columns(X, given)
    else:
        columns = (
            (column[~given[position]] if position in given else column, 0) for position, column in enumerate(X.T)
        )
    for values, zeros in columns:
        yield values[~np.isnan(values)], zeros


def _sparse_columns(X: csr_array, given: Mapping[int, NDArray[np.bool_]]) -> Iterator[tuple[Array, int]]:
    """The stored values of each column, and the number of its zeros.

    Entries that an earlier party gives are zero in X, and do not count.
    """
    by_column = csc_array(X)
    for position, (start, stop) in enumerate(pairwise(by_column.indptr.tolist())):
        stored = by_column.data[start:stop]
        values = stored[stored != 0.0]
        left_out = int(given[position].sum()) if position in given else 0
        yield values, X.shape[0] - len(values) - left_out


def _given_by_others(layout: ClientLayout) -> dict[int, NDArray[np.bool_]]:
    """By column, which rows of the layout an earlier party gives."""
    found: dict[int, NDArray[np.bool_]] = {}
    for cut in layout.ignored:
        rows = np.repeat(np.isin(layout.block_ids, cut.block_ids), layout.block_sizes)
        for position in cut.features.tolist():
            found[position] = found.get(position, np.zeros(len(rows), dtype=bool)) | rows
    return found
