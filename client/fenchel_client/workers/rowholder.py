"""A worker that holds a part of a party's rows: it reads them from files, and works on them for the client."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.rowpieces import DenseRows, Others, OwnRows
from fenchel_client.workers.nodesecret import NodeSecret
from fenchel_client.workers.questions import ERROR, Arrays, opened_question, sealed_answer
from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.raw import complete
from fenchel_common.data.tables.readers import reader_of
from fenchel_common.errors import FenchelError, InvalidInput

Array = NDArray[np.float64]

LOST: Final = b""
"""The answer of a worker that does not have the rows which a question is about: its process is a new one."""
ROWS: Final = "rows"
LOCAL: Final = "local"
CHOSEN: Final = "chosen"
SLOTS: Final = (ROWS, LOCAL, CHOSEN)
"""What a worker keeps for later questions; each is made from the ones before it."""


class RowHolder:
    """Answers questions. Only sealed bytes go in and out; each question names what it needs to be there already.

    What a question makes for later ones has a slot: the rows, F of the local problem, and the rows chosen of F.
    """

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        """By slot the mark that the client gave what is there now."""
        self._X = np.zeros((0, 0))
        self._rows = OwnRows(self._X)
        self._local: dict[str, DenseRows] = {}
        self._work: dict[str, Callable[[Arrays], Arrays]] = {
            "read": self._read,
            "values": lambda told: {"values": self._X[told["at"]]},
            "take": self._take,
            "norms": lambda _: {"values": self._rows.squared_norms()},
            "products": lambda told: {"values": self._rows.products(told["at"], told["weights"])},
            "pull": lambda told: {"parts": np.array(self._rows.pull_parts(told["a"]))},
            "describe": self._describe,
            "choose": self._choose,
            "local norms": lambda told: {"values": self._of(told).squared_norms()},
            "local times": lambda told: {"values": self._of(told).times(told["v"])},
            "local pull": lambda told: {"parts": np.array(self._of(told).pull_parts(told["a"]))},
            "curvature": self._curvature,
        }

    def answer(self, question: bytes) -> bytes:
        """The sealed answer, which may say why there is none; `LOST` if what the question needs is not here."""
        secret = NodeSecret.here()
        told = opened_question(question, secret)
        if not {str(mark) for mark in told["needs"]} <= set(self._marks.values()):
            return LOST
        try:
            found = self._work[str(told["work"])](told)
        except FenchelError as error:
            found = {ERROR: np.array(str(error))}
        if "slot" in told and ERROR not in found:
            self._marks[str(told["slot"])] = str(told["mark"])
        return sealed_answer(found, question, secret)

    def _read(self, told: Arrays) -> Arrays:
        """Reads whole files; the answer has all but the values of the features."""
        shards = [_shard(str(file), str(told["declaration"])) for file in told["files"]]
        first = shards[0]
        for file, shard in zip(told["files"], shards, strict=True):
            if set(shard.features) != set(first.features):
                raise InvalidInput(f"{file}: has other columns than {told['files'][0]}")
        self._X = np.concatenate([_by_name(shard) for shard in shards])
        found: dict[str, NDArray[Any]] = {
            "ids": np.array([sample for shard in shards for sample in shard.ids], dtype=np.str_),
            "features": np.array(first.features, dtype=np.str_),
            "counts": np.array([len(shard.ids) for shard in shards]),
            "digests": np.array([_digest(shard) for shard in shards]),
            "filled": np.array(list(first.fills), dtype=np.str_),
            "fills": np.array(list(first.fills.values()), dtype=np.float64),
        }
        if first.y is not None:
            found["y"] = np.concatenate([shard.y for shard in shards if shard.y is not None])
        if first.weights is not None:
            found["weights"] = np.concatenate([shard.weights for shard in shards if shard.weights is not None])
        return found

    def _take(self, told: Arrays) -> Arrays:
        """Takes up the wanted rows, numbered through all files, in place of those that were here."""
        wanted, width = told["rows"], int(told["width"])
        self._X = np.zeros((0, 0))
        self._local.clear()
        X = np.empty((len(wanted), width), order="F")
        first = 0
        for file, count, digest in zip(told["files"], told["counts"], told["digests"], strict=True):
            here = np.flatnonzero((first <= wanted) & (wanted < first + count))
            if len(here):
                shard = _shard(str(file), str(told["declaration"]))
                if (len(shard.ids), _digest(shard)) != (int(count), str(digest)):
                    raise InvalidInput(f"{file}: has changed since the client read the table")
                X[here] = _by_name(shard)[wanted[here] - first]
            first += int(count)
        for number in range(int(told["cuts"])):
            X[np.ix_(told[f"cut rows {number}"], told[f"cut features {number}"])] = 0.0
        self._X = X
        self._rows = OwnRows(X, piece_rows=int(told["piece rows"]))
        return {}

    def _describe(self, told: Arrays) -> Arrays:
        self._local.clear()
        others = Others(told["weights"], told["whole"], told["basis"]) if "basis" in told else None
        self._local[LOCAL] = self._rows.described_dense(told["live"], others, None)
        return {}

    def _choose(self, told: Arrays) -> Arrays:
        self._local[CHOSEN] = self._local[LOCAL].chosen(told["inside"])
        return {}

    def _curvature(self, told: Arrays) -> Arrays:
        start = told.get("start")
        return {"parts": np.array(self._of(told).curvature_parts(told["inside"], told["weights"], start))}

    def _of(self, told: Arrays) -> DenseRows:
        return self._local[str(told["of"])]


def _shard(file: str, declaration: str) -> Shard:
    declared, path = Declaration.model_validate_json(declaration), Path(file)
    if not path.is_file():
        raise InvalidInput(f"{file}: a worker does not find it; every node must have the files under the same name")
    shard, _ = complete(reader_of(path, "parquet").read(path, declared), declared)
    if shard.categories or shard.imputed or declared.sparse:
        raise InvalidInput(
            f"{file}: has categories, missing cells that a run is to fill in, or is sparse; workers hold rows of "
            "numbers alone"
        )
    return shard


def _by_name(shard: Shard) -> Array:
    """The values with their columns sorted by name."""
    return np.asarray(shard.X)[:, np.argsort(np.array(shard.features, dtype=object), kind="stable")]


def _digest(shard: Shard) -> str:
    """What changes if the file has other rows, or in another order."""
    return hashlib.sha256("\0".join(shard.ids).encode()).hexdigest()
