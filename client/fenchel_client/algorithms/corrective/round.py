"""The beginning of a round of corrective HyFDCA at a client: its memory and its new entries.

A client continues with the memory that it stored at the end of an earlier round, so that a round can be repeated. In a
collapse it continues with the anchor and the best model alone. These are rounded to the fixed-point numbers that are on
record at the server, so that all clients have the same bits, whether they remember them or get them from the server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import RowCodec
from fenchel_client.algorithms.corrective.book import CorrectiveBook, one_of
from fenchel_client.algorithms.corrective.measures import conjugate_and_product_count
from fenchel_client.algorithms.corrective.plan import RoundPlan
from fenchel_client.algorithms.corrective.points import (
    ANCHOR,
    BEST,
    MODEL,
    POINT,
    VERTEX,
    Entry,
    Memory,
    Name,
    PendingPoints,
    empty_memory,
    extended,
    rescaled,
)
from fenchel_client.algorithms.duals import checked_duals
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import (
    NUMBERS_FIELD,
    POINT_FIELD,
    VERTEX_FIELD,
    Anchor,
    RoundStart,
)
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.errors import InvalidInput
from fenchel_common.losses import Loss
from fenchel_common.losses.held_out import HeldOut, with_counts
from fenchel_common.selection import Leg

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClientRound:
    """A round under way at a client.

    Attributes
    ----------
    memory
        The memory with which the round begins; after `with_products` it has the new entries, and after
        `with_combination` the model of the round.
    new
        The new entries, whose predictions and Gram rows are not known when the round begins.
    spread
        The rows of the new entries in `Memory.spread`.
    live
        The positions of the live samples.
    lengths, reach
        For each new entry a bound on the length of its model, None where none is known; the second factor of the errors
        that narrow slots cause, as for `product_scale`.
    """

    plan: RoundPlan
    memory: Memory
    new: Mapping[Name, Entry]
    spread: Array
    live: Positions
    lengths: Sequence[float | None]
    reach: float = 0.0


def begin_round(
    rows: PartyRows,
    codec: RowCodec,
    start: RoundStart,
    memory: Memory | None,
    book: CorrectiveBook,
    *,
    loss: Loss,
    lambda_: float,
    formats: SampleFormats,
) -> ClientRound | None:
    """The round that a `RoundStart` begins; None if the client does not have the memory that it needs.

    Parameters
    ----------
    memory
        The memory with which the records say that the client continues, if it has it.
    """
    plan = book.required_plan()
    live = rows.positions_of(plan.live_blocks)
    if memory is not None and memory.anchor_round != book.anchor_round:
        if book.memory:
            raise InvalidInput("record: accepted: is not what this party found")
        memory = None
    settings = book.settings
    if plan.collapse:
        if start.restored is not None:
            ratio = settings.leg(book.weights_leg).lambda_ / lambda_
            new = _restored_entries(rows, codec, start.restored, book, loss=loss, ratio=ratio)
        elif memory is not None and settings.path is None:
            new = _rounded_entries(rows, memory, formats)
        else:
            return None
        spread = np.zeros((len(new), len(new)))
        return ClientRound(plan, empty_memory(book.anchor_round), new, spread, live, [None] * len(new))
    if memory is None or memory.pending is None:
        return None
    pending = memory.pending
    count = len(pending.by_kind())
    told = _told_numbers(codec, start, memory, book, count=count, loss=loss, formats=formats)
    new = _new_points(rows, codec, start, memory, pending, told.conjugates, book)
    ratio = settings.leg(book.pending_leg).lambda_ / lambda_
    if ratio != 1.0:
        new = {name: replace(entry, weights=entry.weights * ratio) for name, entry in new.items()}
        memory = rescaled(memory, ratio)
    lengths = [None if pending.relative else length / lambda_ for length in told.lengths]
    return ClientRound(plan, memory, new, told.spread, live, lengths or [None] * count, told.reach)


def problem_of(leg: Leg, rows: PartyRows, loss: Loss, settings: CorrectiveSettings) -> tuple[PartyRows, Loss]:
    """The rows and the loss of a leg; `rows` and `loss` are those of all samples."""
    if leg.fold is None or settings.path is None:
        return rows, loss
    if rows.y is not None:
        counts = settings.path.folds_of(rows.ids, seed=settings.seed) != leg.fold
        rows = rows.with_labels(with_counts(rows.y, counts))
    return rows, HeldOut(loss)


def initial_memory(rows: PartyRows) -> Memory:
    """The memory before the first round: anchor and best model are zero."""
    zero = np.zeros(rows.width)
    entries = _anchor_and_best(rows, alpha=np.zeros(rows.count), weights=zero, model=zero)
    return extended(empty_memory(0), entries, gram=np.zeros((2, 2)), spread=np.zeros((2, 2)))


def _anchor_and_best(rows: PartyRows, *, alpha: Array, weights: Array, model: Array) -> dict[Name, Entry]:
    """The entries of a memory that knows nothing else; `weights` is the anchor's model, `model` the best one."""
    return {
        (ANCHOR, 0): Entry(weights, np.zeros(rows.count), alpha),
        (BEST, 0): Entry(model, np.zeros(rows.count), np.zeros(0)),
    }


def _rounded_entries(rows: PartyRows, memory: Memory, formats: SampleFormats) -> dict[Name, Entry]:
    """The remembered anchor and best model, rounded as in their ciphertexts at the server."""
    return _anchor_and_best(
        rows,
        alpha=rounded_towards_zero(memory.anchor.alpha, formats),
        weights=PRODUCT_FORMAT.rounded(memory.anchor.weights),
        model=PRODUCT_FORMAT.rounded(memory.best.weights),
    )


def _restored_entries(
    rows: PartyRows, codec: RowCodec, restored: Anchor, book: CorrectiveBook, *, loss: Loss, ratio: float
) -> dict[Name, Entry]:
    """The anchor and the best model from the server, with all blocks that are on record.

    λ of the anchor's model on record is `ratio` times that of the round.
    """
    vectors = (restored.alpha, restored.weights, restored.model)
    for vector, recorded in zip(vectors, (book.alpha, book.weights, book.model), strict=True):
        if set(recorded) != set(() if vector is None else vector.blocks):
            raise InvalidInput("round_start.restored: must have exactly the blocks that are on record")
    alpha = np.zeros(rows.count)
    if restored.alpha is not None:
        duals = checked_duals(restored.alpha, rows, codec, one_of(book.alpha), loss=loss)
        alpha[rows.positions_of(restored.alpha.blocks)] = duals
    weights, model = (
        np.zeros(rows.width) if vector is None else codec.from_features(vector, one_of(recorded))
        for vector, recorded in ((restored.weights, book.weights), (restored.model, book.model))
    )
    return _anchor_and_best(rows, alpha=alpha, weights=weights * ratio, model=model)


@dataclass(frozen=True, slots=True)
class _ToldNumbers:
    """The sums of all parties' `conjugates_and_products`.

    Attributes
    ----------
    conjugates
        1/N Σ l* of each new point.
    spread
        The rows of the new points in `Memory.spread`.
    lengths, reach
        λ times a bound on the length of each new model, none in a run of 64-bit slots; as for `product_scale`.
    """

    conjugates: list[float]
    spread: Array
    lengths: list[float]
    reach: float


def _told_numbers(
    codec: RowCodec,
    start: RoundStart,
    memory: Memory,
    book: CorrectiveBook,
    *,
    count: int,
    loss: Loss,
    formats: SampleFormats,
) -> _ToldNumbers:
    vector, origins = start.conjugates_and_products, book.of_stored(NUMBERS_FIELD)
    numbers = np.zeros(0) if vector is None else codec.from_numbers(vector, origins)
    measured = conjugate_and_product_count(memory, count, loss=loss)
    narrow = formats.shares is not None
    if len(numbers) != measured + narrow * (count + 1):
        raise InvalidInput("round_start.conjugates_and_products: must have the numbers of the new points")
    conjugates, products, bounds = np.split(numbers, [count, measured])
    width = len(memory.entries) + count
    spread = products.reshape(count, width) if len(products) else np.zeros((count, width))
    # Bounds stay bounds in spite of the rounding of their parts.
    *lengths, reach = (bounds + PRODUCT_FORMAT.error_bound(len(origins))).tolist() if narrow else [0.0]
    if min([*lengths, reach]) < 0.0:
        raise InvalidInput("round_start.conjugates_and_products: a length is below zero; a party has altered it")
    return _ToldNumbers(conjugates.tolist(), spread, lengths, reach)


def _new_points(
    rows: PartyRows,
    codec: RowCodec,
    start: RoundStart,
    memory: Memory,
    pending: PendingPoints,
    conjugates: list[float],
    book: CorrectiveBook,
) -> dict[Name, Entry]:
    """The pending points with their models, without predictions."""
    fields = {POINT: POINT_FIELD, VERTEX: VERTEX_FIELD}
    base = memory.anchor.weights if pending.relative else 0.0
    latest = memory.rounds_of(MODEL)[-1]
    models = {POINT: start.point, VERTEX: start.vertex}
    new = {}
    for (kind, alpha), conjugate in zip(pending.by_kind().items(), conjugates, strict=True):
        model = models[kind]
        if model is None or set(model.blocks) != set(book.layout.feature_blocks):
            raise InvalidInput(f"round_start.{kind}: must have the model of the pending {kind} on all own features")
        weights = base + codec.from_features(model, book.of_feature_holders(book.pending, fields[kind]))
        new[(kind, latest)] = Entry(weights, np.zeros(rows.count), alpha, -conjugate)
    return new


def rounded_towards_zero(alpha: Array, formats: SampleFormats) -> Array:
    """The dual variables in fixed point; rounding towards zero keeps them feasible."""
    unit = formats.alpha.resolution
    return np.asarray(np.trunc(alpha / unit) * unit, dtype=np.float64)
