"""A party's part in the search for extremes or quantiles of features over all their holders.

In each step the holders of a feature give how many of their own values are below each threshold, encrypted; the server
adds up, and each holder opens the sums, from which the next thresholds follow. Features that nobody else holds are
searched within the party.

Protects: the server sees ciphertext. A sum opens only if it is the sum over all holders of the feature. A feature of
too few values is not searched.

Does not protect: the result is a value that one sample has, or a few. The holders also learn how many values are below
each threshold on the way; where exactly two hold a feature, each learns the other's counts by subtracting its own.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fenchel_client.algorithms.codec import BlockCodec, all_holders, together
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin, Stamp
from fenchel_client.moments import own_columns
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Transcript
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import InvalidInput
from fenchel_common.ids import ClientId
from fenchel_common.ranges import Array, Keys, RangeSearch, counts_from_values, counts_to_values, keys_of
from fenchel_common.wire.labels import count_sums_from_bytes

FIELD: Final = "counts-{}"


class FeatureRanges:
    """The counts of a party, and how far the search has come.

    Parameters
    ----------
    layout
        The party's layout, with features counted as columns of `table`, which is dense.
    search
        The search before its first step.
    cipher
        That of vectors by sample, which encrypts at every level that has a key.

    Attributes
    ----------
    search
        The search after the steps so far.
    """

    def __init__(
        self,
        layout: ClientLayout,
        table: PartyTable,
        search: RangeSearch,
        *,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
    ) -> None:
        self.search = search
        self._layout = layout
        self._key = key
        # Of features that are not searched, no value counts.
        self._keys = [
            np.sort(keys_of(values)) if searched else np.zeros(0, dtype=np.int64)
            for searched, (values, _) in zip(search.searched.tolist(), own_columns(table, layout), strict=True)
        ]
        self._blocks = tuple(block for block, held_by in layout.feature_holders.items() if len(held_by) > 1)
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
        """The encrypted counts of the next step, of features that others hold too; none without such features."""
        if not self._blocks:
            return ()
        return tuple(
            self._codec.to_blocks(FIELD.format(number), one, self._blocks, PRODUCT_FORMAT, among=together(all_holders))
            for number, one in enumerate(counts_to_values(self._counts()))
        )

    def take(self, body: bytes, transcript: Transcript[Any]) -> None:
        """Takes the step whose sums are in `body`; raises as `Seal.open` does, or `InvalidInput`."""
        sums, record = count_sums_from_bytes(
            body, blocks=frozenset(self._blocks), slots=self._layout.feature_slots, key=self._key
        )
        values = counts_to_values(self._counts())
        if len(sums) != (len(values) if self._blocks else 0) or any(one.blocks != self._blocks for one in sums):
            raise InvalidInput("sums: must be over the holders of all features for which this party gave counts")
        transcript.take_one(record)
        given = transcript.preparations
        if len(given) != len(self._layout.clients):
            raise InvalidInput("record: every party must have answered")
        for number, one in enumerate(sums):
            values[number, self._codec.positions_of(self._blocks)] = self._opened(number, one, given)
        self.search = self.search.after(counts_from_values(values))

    def _counts(self) -> Keys:
        """(r, THRESHOLDS, m) how many of the party's own keys are below each threshold."""
        thresholds = self.search.thresholds()
        return np.stack(
            [np.searchsorted(keys, thresholds[:, :, position]) for position, keys in enumerate(self._keys)], axis=-1
        )

    def _opened(self, number: int, sums: BlockVector, given: Mapping[ClientId, Stamp]) -> Array:
        def origins(block: int) -> list[Origin]:
            return [Origin(given[holder], FIELD.format(number)) for holder in self._layout.feature_holders[block]]

        return self._codec.from_blocks(sums, origins)
