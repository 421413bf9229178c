"""The comparison of a party's labels with those of the other holders of its samples, before the first round.

The label holders of sample i, |B_i| of them, must give it the same label and the same weight, which is 1 in a run
without weights of samples. Of its own label y every holder encrypts

    mark(i, y) = HMAC(k, y, weight of i, block of i, slot of i), cut to 40 bits,

the server adds up the marks of the holders, and each of these opens the sum. All agree if and only if the sum is
|B_i|·mark(i, y) at every holder, but for a chance of 2^-40 a sample. The parties know k, the server does not. A mark
depends on a block and a slot, not on an id: ids can be guessed, and a party could find them by their marks.

Protects: the server learns of each label holder whether its labels differ from those of others: not how many, not
which. A sum opens only if it is the sum of the marks that all label holders gave in this set-up.

Does not protect: a holder that guesses another's label learns from the sum whether the guess is right. If two parties
hold a sample and there are two possible labels, each party knows the other's label.
"""

import hashlib
import hmac
import logging
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import BlockCodec, together
from fenchel_client.crypto.plain import Cipher
from fenchel_client.crypto.seal import Seal
from fenchel_client.crypto.stamps import Origin
from fenchel_client.table import PartyTable
from fenchel_client.transcript import Transcript
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.blocks import BlockVector, filled
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.crypto.runkey import RunKey
from fenchel_common.errors import CryptoError, InvalidInput, Refusal
from fenchel_common.ids import ClientId, RunId
from fenchel_common.privatelog import PRIVATE
from fenchel_common.wire.labels import label_sums_from_bytes

MARK_BYTES: Final = 5
"""The sum of as many marks as a federation can have parties, 1024, is still exact as a 64-bit float."""
MARKS: Final = "marks"
_LABEL: Final = b"fenchel/v1/labels"

DIFFERENT: Final = (
    "run %s: %d of the %d labels of samples that other parties hold too differ from another party's, or have another "
    "weight; compare the labels with the other parties that hold these samples, correct them, and start the run anew; "
    "until then this party takes no part in it"
)
UNREADABLE: Final = (
    "run %s: the sums of labels could not be opened (%s): a party or the server has altered them; this party takes no "
    "further part in the run"
)

log = logging.getLogger(__name__)


def label_marks(
    labels: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    blocks: NDArray[np.int64],
    slots: NDArray[np.int64],
    *,
    secret: bytes,
    run: RunId,
) -> NDArray[np.float64]:
    """(n,) the mark of each label in its block and slot, a multiple of the resolution of `PRODUCT_FORMAT`.

    All parties of the run know `secret`, the server does not. Without `weights` every sample has the weight 1.
    """
    key = hmac.digest(secret, _LABEL + run.encode(), "sha256")
    # Adding 0.0 makes the two zeros, which are equal as labels, equal as bytes.
    values = (labels + 0.0, np.ones_like(labels) if weights is None else weights)
    words = np.column_stack([*(one.astype("<f8").view("<i8") for one in values), blocks, slots]).astype("<i8")
    digests = (hmac.digest(key, row.tobytes(), "sha256") for row in words)
    numbers = [int.from_bytes(digest[:MARK_BYTES], "little") for digest in digests]
    return np.array(numbers, dtype=np.float64) * PRODUCT_FORMAT.resolution


class LabelComparison:
    """A party's part in the comparison; it answers for one set of sums alone, however often it is asked.

    Parameters
    ----------
    layout
        Which rows of `table` fill which blocks, and who else holds them.
    key
        The key of the run's vectors by sample.
    secret
        Known to all parties of the run, not to the server.
    """

    def __init__(
        self,
        layout: ClientLayout,
        table: PartyTable,
        *,
        cipher: Cipher,
        key: RunKey,
        seal: Seal,
        secret: bytes,
        run: RunId,
    ) -> None:
        compared = (layout.label_holder_counts >= 2) & (table.y is not None)
        self._layout = layout
        self._blocks = tuple(layout.block_ids[compared].tolist())
        sizes = layout.block_sizes[compared].tolist()
        self._holders = np.repeat(layout.label_holder_counts[compared], sizes)
        self._marks = np.zeros(0)
        rows = layout.rows_of(self._blocks)
        if table.y is not None:
            blocks, slots = np.nonzero(filled(sizes, layout.slots))
            block_ids = layout.block_ids[compared][blocks]
            weights = None if table.weights is None else table.weights[rows]
            self._marks = label_marks(table.y[rows], weights, block_ids, slots, secret=secret, run=run)
        positions = np.split(np.arange(len(rows)), np.cumsum(sizes)[:-1])
        self._codec = BlockCodec(
            "samples",
            dict(zip(self._blocks, positions, strict=False)),
            [table.ids[row] for row in rows],
            layout.holders,
            layout.slots,
            cipher,
            seal,
        )
        self._key = key
        self._run = run
        self._answered: tuple[bytes, bool] | None = None

    def marks(self) -> BlockVector | None:
        """The encrypted marks of this party's labels in blocks with other label holders; None if there are none."""
        if not self._blocks:
            return None
        return self._codec.to_blocks(MARKS, self._marks, self._blocks, PRODUCT_FORMAT, among=together(self._marking))

    def differs(self, body: bytes, transcript: Transcript[Any]) -> bool:
        """Whether other holders have other labels, by the sums in `body`; only this party's log says how many."""
        digest = hashlib.sha256(body).digest()
        if self._answered is None:
            self._answered = digest, self._compare(body, transcript)
        if self._answered[0] != digest:
            raise Refusal(
                "labels were compared already under this key, and the server asks to compare them with other sums",
                public_reason="it has compared its labels in this set-up already",
            )
        return self._answered[1]

    def _marking(self, holders: tuple[ClientId, ...]) -> list[ClientId]:
        """Of the holders of a block, those that mark its labels."""
        return [holder for holder in holders if holder in self._layout.label_holders]

    def _compare(self, body: bytes, transcript: Transcript[Any]) -> bool:
        sums, record = label_sums_from_bytes(
            body, blocks=frozenset(self._blocks), slots=self._layout.slots, key=self._key
        )
        if sums.blocks != self._blocks:
            raise InvalidInput("sums: must be over the label holders of all blocks for which this party gave marks")
        transcript.take_one(record)
        given = transcript.preparations
        if len(given) != len(self._layout.clients):
            raise InvalidInput("record: every party must have answered to its layout")

        def origins(block: int) -> list[Origin]:
            return [Origin(given[holder], MARKS) for holder in self._marking(self._layout.holders[block])]

        try:
            opened = self._codec.from_blocks(sums, origins)
        except CryptoError as error:
            # The server gets the same answer as for labels that differ, and so no second bit.
            log.error(UNREADABLE, self._run, error, extra=PRIVATE)
            return True
        different = int(np.count_nonzero(opened != self._holders * self._marks))
        if different:
            log.error(DIFFERENT, self._run, different, len(self._marks), extra=PRIVATE)
        return different > 0
