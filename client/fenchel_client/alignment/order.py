"""The order in which a party lists its rows to the server.

The server and, through the layout's public seed, other parties learn something of the order of a list. In file order,
often sorted by id, a server that knows the ids could tell which row is whose. So a party lists its rows in a
pseudorandom order whose key is a digest of its own shard: nobody without the whole shard can retrace it, the same
shard gives the same order in every run, and the order of the rows in the file does not matter.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.table import PartyTable
from fenchel_common.data.categories import Category
from fenchel_common.data.shard import Matrix, Shard
from fenchel_common.framing import framed

K = TypeVar("K", str, bytes)

_LABEL = b"fenchel/v1/alignment/order"
_ROWS_AT_ONCE = 4096


Values = Callable[[NDArray[np.int64]], tuple[Matrix, NDArray[np.int64]]]
"""Gives for some rows of a shard a matrix that has them, and their positions in it."""


OwnData = Shard | PartyTable
"""A party's data: a shard, or a table that is arranged already because workers hold its rows."""


def arrange(shard: OwnData) -> PartyTable:
    """The party's table, whose rows are listed in the party's private order."""
    if isinstance(shard, PartyTable):
        return shard
    order = listing_order(
        shard.ids,
        lambda rows: (shard.X, rows),
        categories=shard.categories,
        further=[values for values in (shard.y, shard.weights) if values is not None],
    )
    return PartyTable.of(shard, order)


def listing_order(
    ids: Sequence[str], values: Values, *, categories: Sequence[Category], further: Sequence[NDArray[np.float64]]
) -> NDArray[np.int64]:
    """The rows of a shard in the order in which the party lists them; `further` are its labels and weights."""
    key = _content_key(ids, values, categories, further)
    return sorting_order([hmac.digest(key, sample_id.encode(), "sha256") for sample_id in ids])


def sorting_order(keys: Sequence[K]) -> NDArray[np.int64]:
    """The positions of the keys in the order that sorts them."""
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def _content_key(
    ids: Sequence[str], values: Values, categories: Sequence[Category], further: Sequence[NDArray[np.float64]]
) -> bytes:
    """A digest of ids, values, labels and weights that does not depend on the order of the rows."""
    by_id = sorting_order(ids)
    digest = hashlib.sha256(_LABEL)
    for sample_id in sorted(ids):
        _absorb(digest, sample_id.encode())
    for category in categories:
        _absorb(digest, framed(*(value.encode() for value in category.values)))
    for start in range(0, len(by_id), _ROWS_AT_ONCE):
        rows = by_id[start : start + _ROWS_AT_ONCE]
        _absorb_values(digest, *values(rows))
        for category in categories:
            _absorb(digest, category.codes[rows].data)
        for column in further:
            _absorb(digest, column[rows].data)
    return digest.digest()


def _absorb_values(digest: "hashlib._Hash", X: Matrix, rows: NDArray[np.int64]) -> None:
    if isinstance(X, csr_array):
        chosen = csr_array(X[rows])
        chosen.sort_indices()
        # The width of the index type depends on how the matrix was made, not on what is in it.
        for part in (chosen.data, chosen.indices.astype(np.int64), chosen.indptr.astype(np.int64)):
            _absorb(digest, part.data)
        return
    # Row by row, because a copy of wide rows together can be as large as the whole matrix.
    digest.update((len(rows) * X.shape[1] * X.itemsize).to_bytes(8, "big"))
    for row in rows:
        digest.update(np.ascontiguousarray(X[row]).data)


def _absorb(digest: "hashlib._Hash", part: bytes | memoryview) -> None:
    digest.update(memoryview(part).nbytes.to_bytes(8, "big"))
    digest.update(part)
