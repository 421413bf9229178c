"""A party's table whose rows workers hold: this process keeps ids and labels, and no values of features."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fenchel_client.alignment.order import listing_order
from fenchel_client.rowpieces import HeldRows, spans_of
from fenchel_client.table import PartyTable
from fenchel_client.workers.holders import Holder
from fenchel_client.workers.rowholder import ROWS
from fenchel_client.workers.spreadrows import Part, SpreadRows
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.data.shard import Matrix, check_ids
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.errors import InvalidInput

Positions = NDArray[np.int64]


class SpreadTable(PartyTable):
    """The rows of one party, of which each of the `holders` has some.

    Before a run each worker has those of its own files. For a run each reads the files again, and keeps the rows that
    fill its pieces in the order of the layout.
    """

    spread = True

    def __init__(self, files: Sequence[Path], declaration: Declaration, holders: Sequence[Holder]) -> None:
        """Has the workers read the files, which are in the order of the rows; `InvalidInput` if they cannot be used."""
        self._told: dict[str, Any] = {
            "files": np.array([str(file.absolute()) for file in files], dtype=np.str_),
            "declaration": declaration.model_dump_json(),
        }
        self._holders = holders[: len(files)]
        groups = np.array_split(self._told["files"], len(self._holders))
        asked = [
            holder.ask("read", {**self._told, "files": group}, slot=ROWS)
            for holder, group in zip(self._holders, groups, strict=True)
        ]
        found = [result() for result in asked]
        names = tuple(str(name) for name in found[0]["features"])
        if any(set(names) != {str(name) for name in each["features"]} for each in found):
            raise InvalidInput(f"{declaration.file}: its files have different columns")
        counts = np.concatenate([each["counts"] for each in found])
        self._told |= {"counts": counts, "digests": np.concatenate([each["digests"] for each in found])}
        held = np.cumsum([0, *(int(each["counts"].sum()) for each in found)]).tolist()
        parts = [Part(holder, *ends) for holder, ends in zip(self._holders, pairwise(held), strict=True)]
        ids = [str(sample) for each in found for sample in each["ids"]]
        check_ids(ids, declaration.file)
        y, weights = (
            np.concatenate([each[name] for each in found]) if name in found[0] else None for name in ("y", "weights")
        )
        self._order = listing_order(
            ids,
            lambda rows: (_values(parts, rows, names), np.arange(len(rows))),
            categories=(),
            further=[values for values in (y, weights) if values is not None],
        )
        self.ids = tuple(ids[row] for row in self._order)
        self.features, self.categories, self.sparse = names, (), False
        self.y, self.weights = (None if values is None else values[self._order] for values in (y, weights))
        self.label_names = None if declaration.label is None else declaration.label.names()
        fills = zip(found[0]["filled"], found[0]["fills"], strict=True)
        self.fills = {str(name): float(value) for name, value in fills}
        self._taken: tuple[ClientLayout, SpreadRows] | None = None

    def matrix(self, layout: ClientLayout) -> Matrix:  # noqa: ARG002 - of the interface
        raise InvalidInput("X: workers hold the rows of this party")

    def missing(self) -> dict[str, int]:
        return {}

    def held(self, layout: ClientLayout) -> HeldRows:
        if self._taken is None or self._taken[0] is not layout:
            self._taken = layout, self._take(layout)
        return self._taken[1]

    def _take(self, layout: ClientLayout) -> SpreadRows:
        """Gives each worker whole pieces of the layout's rows."""
        wanted, cuts = self._order[layout.rows], list(_cuts(layout))
        spans = spans_of(len(wanted))
        step = spans[0].stop - spans[0].start
        parts, asked = [], []
        for holder, of in zip(self._holders, np.array_split(np.arange(len(spans)), len(self._holders)), strict=True):
            if not len(of):
                continue
            part = Part(holder, spans[of[0]].start, spans[of[-1]].stop)
            told = {**self._told, "rows": wanted[part.start : part.stop], "width": len(self.features)}
            told |= {"piece rows": step, "cuts": len(cuts)}
            for number, (rows, features) in enumerate(cuts):
                here = rows[(part.start <= rows) & (rows < part.stop)] - part.start
                told |= {f"cut rows {number}": here, f"cut features {number}": features}
            asked.append(holder.ask("take", told, slot=ROWS))
            parts.append(part)
        for result in asked:
            result()
        return SpreadRows(parts, len(self.features))


def _cuts(layout: ClientLayout) -> Iterator[tuple[Positions, Positions]]:
    """Rows and features of the entries that earlier parties give."""
    for cut in layout.ignored:
        ignored = np.repeat(np.isin(layout.block_ids, cut.block_ids), layout.block_sizes)
        yield np.flatnonzero(ignored), cut.features


def _values(parts: Sequence[Part], rows: Positions, names: Sequence[str]) -> NDArray[np.float64]:
    """The values of some rows, as the workers read them, with columns in the order of the names."""
    split = [np.flatnonzero((part.start <= rows) & (rows < part.stop)) for part in parts]
    asked = [part.holder.ask("values", {"at": rows[of] - part.start}) for part, of in zip(parts, split, strict=True)]
    values = np.empty((len(rows), len(names)))
    by_name = np.argsort(np.array(names, dtype=object), kind="stable")
    for of, result in zip(split, asked, strict=True):
        values[np.ix_(of, by_name)] = result()["values"]
    return values
