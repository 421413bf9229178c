"""The lengths of a party's whole rows, before the first round of a run that divides rows by them.

The holders of a sample give the sum of the squares of their own prepared values of it, encrypted; the server adds them
up, and each holder opens the sums. Lengths of rows that nobody else holds stay within the party.

Protects: the server sees ciphertext. A sum opens only if it is the sum over all holders of the sample.

Does not protect: each holder of a sample learns the length of its whole row.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import BlockCodec
from fenchel_client.algorithms.rows import PartyRows
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Transcript
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.objectives import squared_row_norms
from fenchel_common.wire.labels import length_sums_from_bytes

Array = NDArray[np.float64]

LENGTHS: Final = "lengths"


class RowLengths:
    """A party's part in the sums of squared lengths; `table` has the prepared features. The intercept is left out."""

    def __init__(self, layout: ClientLayout, table: PartyTable, *, cipher: Cipher, key: RunKey, seal: Seal) -> None:
        rows = PartyRows(layout, table)
        self._layout = layout
        self._key = key
        self._blocks = tuple(sorted(rows.shared))
        self._own = squared_row_norms(rows.X)
        if rows.intercept is not None:
            self._own -= np.asarray(rows.X[:, [rows.intercept]].sum(axis=1)) ** 2
        self._codec = BlockCodec("samples", rows.positions, rows.ids, layout.holders, layout.slots, cipher, seal)

    def contribution(self) -> BlockVector | None:
        """The encrypted squares of this party's parts of shared rows; None without such rows."""
        if not self._blocks:
            return None
        return self._codec.to_blocks(LENGTHS, self._own, self._blocks, PRODUCT_FORMAT, among=lambda holders: holders)

    def whole(self, body: bytes, transcript: Transcript[Any]) -> Array:
        """(n,) the length of each row, from the sums in `body`; raises as `Seal.open` does, or `InvalidInput`."""
        sums, record = length_sums_from_bytes(
            body, blocks=frozenset(self._blocks), slots=self._layout.slots, key=self._key
        )
        if (() if sums is None else sums.blocks) != self._blocks:
            raise InvalidInput("sums: must be over the holders of all samples for which this party gave lengths")
        transcript.take_one(record)
        squares, given = self._own.copy(), transcript.preparations
        if len(given) != len(self._layout.clients):
            raise InvalidInput("record: every party must have answered")
        if sums is not None:

            def origins(block: int) -> list[Origin]:
                return [Origin(given[holder], LENGTHS) for holder in self._layout.holders[block]]

            squares[self._codec.positions_of(self._blocks)] = self._codec.from_blocks(sums, origins)
        # The sum of rounded parts can be slightly below zero where all parts are zero.
        return np.sqrt(np.maximum(squares, 0.0))
