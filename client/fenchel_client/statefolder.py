"""A party's private folder. The files of a run are named after it, and only their owner can read them.

RUN.run          the key, terms and layout while the run lasts, so that a restarted process can rejoin
RUN.features.csv the pseudonyms under which the server knows the party's features, and their names
RUN.model/       the party's part of the model, from the end on (`fenchel_common.model`)
RUN.scores.csv   the scores of a scoring run, at the party that has asked for them
RUN.release      the weights that the server got, if the roster releases the model to the server
RUN.ledger.json  how many values of which kind the party sent and got

The file `set-up` has the keys of the set-up under way up to its layout, for the same purpose as RUN.run. The
`fenchel client` command keeps further files: `now.json` and `last-errors.jsonl`.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fenchel_client.ledger import PartyLedger
from fenchel_client.privatefiles import read_private, write_private
from fenchel_common.ids import ClientId, RunId, check_run_id
from fenchel_common.model import Model, write_model
from fenchel_common.model.folder import SUFFIX
from fenchel_common.setup import PartyRun, PartySetUp
from fenchel_common.wire.setup import (
    party_run_from_bytes,
    party_run_to_bytes,
    party_setup_from_bytes,
    party_setup_to_bytes,
)

RUN: Final = ".run"
SETUP: Final = "set-up"
FEATURES: Final = ".features.csv"
SCORES: Final = ".scores.csv"
RELEASE: Final = ".release"
LEDGER: Final = ".ledger.json"


class StateFolder:
    """The files that a party keeps across restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def path(self) -> Path:
        return self._path

    def run(self, run: RunId) -> PartyRun | None:
        """The record of a run that is not over; None without one; `KeyFileError` if others can read the file."""
        path = self._file(run, RUN)
        return party_run_from_bytes(read_private(path)) if path.exists() else None

    def keep_run(self, run: RunId, kept: PartyRun) -> None:
        write_private(self._file(run, RUN), party_run_to_bytes(kept))

    def end_run(self, run: RunId) -> None:
        """Deletes the key: it belongs to this run alone, and the run is over."""
        self.end_setup()
        self._file(run, RUN).unlink(missing_ok=True)

    def setup(self) -> PartySetUp | None:
        """The record of the set-up under way; None without one; `KeyFileError` if others can read the file."""
        path = self._path / SETUP
        return party_setup_from_bytes(read_private(path)) if path.exists() else None

    def keep_setup(self, kept: PartySetUp) -> None:
        # A power cut may undo it: the set-up then begins again.
        write_private(self._path / SETUP, party_setup_to_bytes(kept), durable=False)

    def end_setup(self) -> None:
        """Deletes the record of the set-up, with its keys."""
        (self._path / SETUP).unlink(missing_ok=True)

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
        return self._file(run, SUFFIX)

    def keep_model(self, run: RunId, model: Model) -> None:
        write_model(self.model_path(run), model)

    def scores_path(self, run: RunId) -> Path:
        return self._file(run, SCORES)

    def keep_scores(self, run: RunId, ids: Iterable[str], scores: Iterable[float]) -> None:
        """Stores the scores of the rows for which this party has asked."""
        content = io.StringIO()
        rows = csv.writer(content, lineterminator="\n")
        rows.writerow(("id", "score"))
        rows.writerows(zip(ids, scores, strict=True))
        write_private(self._file(run, SCORES), content.getvalue().encode())

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
