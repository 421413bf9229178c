"""A party's private folder. The files of a run are named after it, and only their owner can read them.

RUN.run          the key, terms and layout while the run lasts, so that a restarted process can rejoin
RUN.features.csv the pseudonyms under which the server knows the party's features, and their names
RUN.model.npz    the party's part of the model, from the end on
RUN.release      the weights that the server got, if the roster releases the model to the server
RUN.ledger.json  how many values of which kind the party sent and got
"""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_client.ledger import PartyLedger
from fenchel_client.privatefiles import read_private, write_private
from fenchel_common.ids import ClientId, RunId, check_run_id
from fenchel_common.intercept import INTERCEPT
from fenchel_common.setup import PartyRun
from fenchel_common.wire.setup import party_run_from_bytes, party_run_to_bytes

RUN: Final = ".run"
FEATURES: Final = ".features.csv"
MODEL: Final = ".model.npz"
RELEASE: Final = ".release"
LEDGER: Final = ".ledger.json"
NOT_PREPARED: Final[Mapping[str, NDArray[np.float64]]] = {}


class StateFolder:
    """The files that a party keeps across restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def run(self, run: RunId) -> PartyRun | None:
        """The record of a run that is not over; None without one; `KeyFileError` if others can read the file."""
        path = self._file(run, RUN)
        return party_run_from_bytes(read_private(path)) if path.exists() else None

    def keep_run(self, run: RunId, kept: PartyRun) -> None:
        write_private(self._file(run, RUN), party_run_to_bytes(kept))

    def end_run(self, run: RunId) -> None:
        """Deletes the key: it belongs to this run alone, and the run is over."""
        self._file(run, RUN).unlink(missing_ok=True)

    def unfinished_runs(self) -> int:
        return sum(1 for _ in self._path.glob(f"*{RUN}"))

    def keep_features(self, run: RunId, names: Mapping[str, str]) -> None:
        """Writes the name of each feature beside its pseudonym; messages of the server name features by pseudonym."""
        content = io.StringIO()
        rows = csv.writer(content, lineterminator="\n")
        rows.writerow(("pseudonym", "feature"))
        rows.writerows(sorted(names.items()))
        write_private(self._file(run, FEATURES), content.getvalue().encode())

    def feature_count(self, run: RunId) -> int:
        """The number of features that `keep_features` wrote down; 0 without its file."""
        path = self._file(run, FEATURES)
        if not path.exists():
            return 0
        with path.open(encoding="utf-8", newline="") as lines:
            return sum(1 for _ in csv.reader(lines)) - 1

    def model_path(self, run: RunId) -> Path:
        return self._file(run, MODEL)

    def keep_model(
        self,
        run: RunId,
        features: list[str],
        weights: NDArray[np.float64],
        figures: dict[str, float | None],
        preparation: Mapping[str, NDArray[np.float64]] = NOT_PREPARED,
        classes: tuple[str, ...] = (),
    ) -> None:
        """Stores the model; `figures` are P, D and the gap, and an unknown one is stored as NaN.

        With a `preparation`, the weights are those of prepared features and labels, and the file has what prepares
        them. The weight of the constant feature is stored as the intercept of the model. With the names of `classes`,
        weights are (m, classes), a column for each name.
        """
        arrays = {name: np.array(np.nan if value is None else value) for name, value in figures.items()}
        arrays |= {"weights": weights, **preparation}
        if classes:
            arrays["classes"] = np.array(classes)
        if INTERCEPT in features:
            position = features.index(INTERCEPT)
            arrays["intercept"] = weights[position] / preparation["scale"][position]
            features = [name for name in features if name != INTERCEPT]
            arrays |= {
                name: np.delete(arrays[name], position, axis=0) for name in ("weights", "shift", "scale", "missing")
            }
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, features=np.array(features), **arrays)
        write_private(self._file(run, MODEL), content.getvalue())

    def release(self, run: RunId) -> bytes | None:
        """The release that the server got; None without one."""
        path = self._file(run, RELEASE)
        return read_private(path) if path.exists() else None

    def keep_release(self, run: RunId, release: bytes) -> None:
        write_private(self._file(run, RELEASE), release)

    def ledger(self, run: RunId, *, party: ClientId) -> PartyLedger:
        return PartyLedger(self._file(run, LEDGER), party=party, run=run)

    def _file(self, run: RunId, suffix: str) -> Path:
        check_run_id(run)
        return self._path / f"{run}{suffix}"
