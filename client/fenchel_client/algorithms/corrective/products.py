"""The inner products of new entries: a client's contribution to them, and the memory with their sums."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.algorithms.codec import Origins, RowCodec, together
from fenchel_client.algorithms.corrective.book import CorrectiveBook
from fenchel_client.algorithms.corrective.points import Unopened, extended
from fenchel_client.algorithms.corrective.round import ClientRound
from fenchel_client.algorithms.corrective.scales import product_scale, unit_error
from fenchel_client.algorithms.corrective.simplex_qp import dot
from fenchel_client.algorithms.rows import PartyRows, Positions
from fenchel_common.algorithms.corrective.formats import SampleFormats
from fenchel_common.algorithms.corrective.messages import (
    GRAM_FIELD,
    POINT_FIELD,
    POINT_PRODUCT_FORMAT,
    VERTEX_FIELD,
    Products,
)
from fenchel_common.blocks import BlockVector
from fenchel_common.crypto.packing import VectorFormat
from fenchel_common.errors import InvalidInput

Array = NDArray[np.float64]

_FIELDS: Final = (POINT_FIELD, VERTEX_FIELD)
COARSE_UNIT: Final = 2.0**20
"""Gram entries are sent in two parts, whole multiples of this unit and the rest, because they can exceed the format."""


def products_of(
    rows: PartyRows, codec: RowCodec, current: ClientRound, *, norms: Array | None, formats: SampleFormats
) -> Products:
    """The client's contribution to the inner products of the new entries.

    Parameters
    ----------
    norms
        ‖x_i‖² of the whole rows; None if the client does not know them yet.
    """
    blocks, among = _summed_blocks(rows, current), together(current.plan.contributors)
    vectors: list[BlockVector | None] = [None, None]
    if blocks:
        samples = rows.positions_of(blocks)
        scales = _scales(current, norms=norms, formats=formats)
        for position, (name, entry, scale) in enumerate(zip(_FIELDS, current.new.values(), scales, strict=False)):
            values = rows.products(samples, entry.weights)
            if scale is not None:
                values = values / scale
            vectors[position] = codec.to_blocks(name, blocks, values, _format(scale, formats), among=among)
    gram_rows = _gram_rows(current, codec.feature_positions(current.plan.feature_blocks))
    coarse = np.round(gram_rows / COARSE_UNIT)
    numbers = np.concatenate([coarse, gram_rows - coarse * COARSE_UNIT])
    gram = codec.to_numbers(GRAM_FIELD, numbers, contributors=current.plan.participants)
    return Products(vectors[0], vectors[1], gram)


def with_products(
    rows: PartyRows,
    codec: RowCodec,
    current: ClientRound,
    products: Products | None,
    book: CorrectiveBook,
    *,
    norms: Array,
    formats: SampleFormats,
) -> ClientRound:
    """The round with the new entries in its memory; their products are opened when they are first used.

    Parameters
    ----------
    products
        The sums of all clients' contributions; None where every client has whole rows, and computes them alone.
    """
    count = len(current.new)
    width = len(current.memory.entries) + count
    if products is None:
        if book.products or not book.whole_rows:
            raise InvalidInput("products: are missing, but other parties hold other parts of rows")
        gram_rows = _gram_rows(current, np.arange(rows.width))
    else:
        parts = codec.from_numbers(products.gram, book.of_all(book.products, GRAM_FIELD))
        if len(parts) != 2 * count * width:
            raise InvalidInput("gram: must have the products of the new entries")
        coarse, fine = np.split(parts, 2)
        gram_rows = coarse * COARSE_UNIT + fine
    sums = (None, None) if products is None else (products.point, products.vertex)
    scales = _scales(current, norms=norms, formats=formats)
    summed = _summed_blocks(rows, current)
    new = {}
    for (name, entry), told, field, scale, length in zip(
        current.new.items(), sums, _FIELDS, scales, current.lengths, strict=False
    ):
        if summed != (() if told is None else told.blocks):
            raise InvalidInput("products.blocks: must be the shared blocks that take part")
        if told is not None and told.vector.format != _format(scale, formats):
            raise InvalidInput(f"{field}.vector: has another format than the parties chose")
        origins, live = book.of_holders(book.products, field), current.plan.live_blocks
        opening = partial(_predictions, rows, codec, live, entry.weights, told, origins, scale=scale)
        error = 0.0 if scale is None or length is None else unit_error(length, formats)
        new[name] = replace(entry, products=Unopened(opening), error=error)
    memory = extended(current.memory, new, gram=gram_rows.reshape(count, width), spread=current.spread)
    return replace(current, memory=memory, new=new)


def _gram_rows(current: ClientRound, features: Positions) -> Array:
    """The products of the new models with the known and the new ones, restricted to these features, row by row."""
    known = [entry.weights[features] for entry in current.memory.entries.values()]
    new = [entry.weights[features] for entry in current.new.values()]
    return np.array([dot(weights, other) for weights in new for other in (*known, *new)])


def _predictions(
    rows: PartyRows,
    codec: RowCodec,
    live_blocks: Sequence[int],
    weights: Array,
    told: BlockVector | None,
    origins: Origins,
    *,
    scale: Array | None,
) -> Array:
    """x_i·w of the live samples: the secure sum on shared blocks, computed from the client's own columns on others.

    `scale` has the numbers by which the told values were divided; None if they were not.
    """
    alone = rows.positions_of([block for block in live_blocks if block not in rows.shared])
    values = rows.products(alone, weights)
    if told is not None:
        samples = rows.positions_of(told.blocks)
        values[samples] = codec.from_blocks(told, origins) * (1.0 if scale is None else scale[samples])
    return values


def _scales(current: ClientRound, *, norms: Array | None, formats: SampleFormats) -> list[Array | None]:
    """`product_scale` of each new entry."""
    return [product_scale(length, reach=current.reach, norms=norms, formats=formats) for length in current.lengths]


def _format(scale: Array | None, formats: SampleFormats) -> VectorFormat:
    return POINT_PRODUCT_FORMAT if scale is None or formats.shares is None else formats.shares


def _summed_blocks(rows: PartyRows, current: ClientRound) -> tuple[int, ...]:
    """The blocks whose products are summed: the live ones that are shared, unless all products are zero."""
    if current.plan.blank:
        return ()
    return tuple(block for block in current.plan.live_blocks if block in rows.shared)
