"""The state of a party before the first round of pairs: zero, or after other rounds the anchor on record."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.points import ANCHOR, BEST, Entry, Name, empty_memory, extended
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.partial.book import PartialBook, of_block
from fenchel_client.algorithms.partial.state import KINDS, Missing, OpenPair, PartyState, first_state
from fenchel_client.algorithms.rows import PartyRows
from fenchel_common.algorithms.partial.messages import Facts
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss

Array = NDArray[np.float64]

ALPHA: Final = "alpha"
WEIGHTS: Final = "weights"


def state_before_pairs(rows: PartyRows, codec: RowCodec, facts: Facts, book: PartialBook, *, loss: Loss) -> PartyState:
    """The state before the first round of pairs; raises `Missing`."""
    start = book.start
    if start is None:
        return first_state(rows)
    if facts.start is None:
        raise Missing
    given, layout = facts.start, book.layout
    due = {
        ALPHA: layout.holders.keys() & start.alpha.keys(),
        WEIGHTS: layout.feature_blocks.keys() & start.weights.keys(),
    }
    for name, vector in ((ALPHA, given.alpha), (WEIGHTS, given.weights)):
        if set(() if vector is None else vector.blocks) != due[name]:
            raise InvalidInput(f"start.{name}: must have exactly the blocks that are on record")
    alpha, weights = np.zeros(rows.count), np.zeros(rows.width)
    if given.alpha is not None:
        duals = checked_duals(given.alpha, rows, codec, of_block(start.alpha), loss=loss)
        alpha[rows.positions_of(given.alpha.blocks)] = duals
    if given.weights is not None:
        weights = codec.from_features(given.weights, of_block(start.weights))
    return continued_state(rows, alpha, weights, start.round_id)


def continued_state(rows: PartyRows, alpha: Array, weights: Array, round_id: int) -> PartyState:
    """The state in which the rounds of pairs begin after other rounds, of which `round_id` was the last.

    Anchor and mean model are the anchor of those rounds. Only changes of the mean conjugates count, so that they are
    zero here.
    """
    nothing = np.zeros(rows.count)
    anchor = Entry(weights, nothing, alpha)
    entries: dict[Name, Entry] = {(ANCHOR, 0): anchor, (BEST, 0): Entry(weights, nothing, np.zeros(0))}
    unknown = np.zeros((2, 2))
    return PartyState(
        round_id,
        extended(empty_memory(round_id), entries, gram=unknown, spread=unknown),
        pairs={round_id: OpenPair(dict.fromkeys(KINDS, alpha), anchor)},
        models={round_id: dict.fromkeys(KINDS, np.zeros_like(weights))},
        conjugates={round_id: np.zeros(len(KINDS))},
        start=round_id,
    )
