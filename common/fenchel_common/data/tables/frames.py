"""Shards from the frames of pandas, polars and arrow, in Python."""

from collections.abc import Iterator, Sequence
from typing import Any

import narwhals
import pyarrow as pa

from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.arrowtable import ArrowSource, profiled, raw_table
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.guess import guessed
from fenchel_common.data.tables.raw import complete
from fenchel_common.errors import InvalidInput


class FrameSource(ArrowSource):
    """A frame in memory."""

    def __init__(self, name: str, table: Any) -> None:
        super().__init__(name, table.column_names)
        self._table = table

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        yield from self._table.select(list(columns)).to_batches()


def shard_from_frame(frame: object, **declared: object) -> tuple[Shard, list[str]]:
    """The shard of a frame, and notes for its owner.

    Parameters
    ----------
    frame
        A frame of pandas, polars, pyarrow, or any other eager frame that narwhals knows. The index of a pandas frame is
        not used; `frame.reset_index()` makes it a column.
    declared
        The keys of shard.toml but `file`, such as `id="patient"`. Without any, everything is guessed, and the notes say
        how.

    Raises
    ------
    InvalidInput, Refusal
        The frame cannot be used as it is; the message names row, column and cure.
    """
    source = FrameSource("the frame", _arrow_table(frame))
    notes: list[str] = []
    declaration = Declaration.from_mapping({"file": "the frame", **declared}, source="shard_from_frame")
    if not declared:
        declaration, notes = guessed(profiled(source, declaration))
    shard, further = complete(raw_table(source, declaration), declaration)
    return shard, notes + further


def _arrow_table(frame: object) -> Any:
    try:
        return narwhals.from_native(frame, eager_only=True).to_arrow()  # type: ignore[call-overload]  # any frame
    except TypeError:
        raise InvalidInput(
            f"a {type(frame).__name__} is no frame of pandas, polars or arrow; a lazy frame must be collected first"
        ) from None
    except pa.ArrowException:
        raise InvalidInput(
            "the frame has a column with cells of several types; give each column one type, such as by "
            'frame["column"].astype(str)'
        ) from None
