"""`fenchel client`: what its operator agrees to by its options."""

import signal
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fenchel_client.concessions import MEANINGS
from fenchel_client.session import EndKind, SessionEnd, answer
from fenchel_client.task import Task
from fenchel_common.data.tables import source
from fenchel_common.data.tables.source import LoadedShard, load_shard
from fenchel_common.errors import DataUnfit, InvalidInput, Refusal
from fenchel_common.ids import RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.cli import client
from support.kits import make_federation
from support.tablefiles import CLINIC, write_table
from support.tables import named_shards, small_dataset

app = typer.Typer()
client.register(app)


@app.callback()
def _fenchel() -> None:
    """Stands for the whole command, of which `client` is one verb."""


SEALED = RunConfig.from_mapping({"name": "test"})
PAPER = RunConfig.from_mapping({"name": "test", "privacy": "paper", "acknowledge_row_leak": True})
PLAIN = RunConfig.from_mapping({"name": "test", "privacy": "plain", "benchmark": True})
WEAK_KEY = {"bits": 2048, "kind": "subgroup"}
WEAK = [
    (PAPER, ("paper",)),
    (PLAIN, ("plain",)),
    (RunConfig.from_mapping({"name": "test", "key": WEAK_KEY, "alignment": "hmac"}), ("2048-bits", "subgroup", "hmac")),
]


class AskedOnce:
    """A session with a server that asks for an introduction to one run, and dismisses the party."""

    terms: RunConfig

    def __init__(self, _kit: object, handle: Callable[[Task], bytes], **_options: object) -> None:
        self._handle = handle

    def run(self) -> SessionEnd:
        self._handle(Task(RunId("run-1"), RoundId(0), INTRODUCE, terms_to_bytes(self.terms)))
        return SessionEnd(EndKind.DISMISSED, "over")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Starts the client beside a server that asks for a run with these terms."""
    kit = make_federation(tmp_path / "kits")["south"]
    data = tmp_path / "shard.npz"
    named_shards(small_dataset(8, 2), grid=(1, 1))["p1"].save(data)
    monkeypatch.setattr(client, "Session", AskedOnce)
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def begin(terms: RunConfig, *options: str) -> None:
        monkeypatch.setattr(AskedOnce, "terms", terms, raising=False)
        words = ["client", "--kit", str(kit), "--data", str(data), "--state", str(tmp_path / "state"), *options]
        app(words, standalone_mode=False)

    return begin


@pytest.mark.parametrize(("terms", "words"), WEAK, ids=[" ".join(words) for _, words in WEAK])
def test_a_client_takes_part_in_weaker_runs_only_where_its_operator_says_so(
    start: Callable[..., None], monkeypatch: pytest.MonkeyPatch, terms: RunConfig, words: tuple[str, ...]
) -> None:
    options = [option for word in words for option in ("--accept", word)]
    with pytest.raises(Refusal, match=" ".join(options)):
        start(terms)
    start(terms, *options)
    monkeypatch.setenv("FENCHEL_ACCEPT", " ".join(words))
    start(terms)


def test_the_matrix_of_the_file_is_gone_when_the_session_begins(
    start: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party has its own copy, so a second one would stay in memory for as long as the process runs."""
    loaded: list[weakref.ref[object]] = []
    at_work: list[bool] = []

    def watched_load(path: Path) -> LoadedShard:
        found = load_shard(path)
        loaded.append(weakref.ref(found.shard.X))
        return found

    class Watched(AskedOnce):
        def run(self) -> SessionEnd:
            at_work.append(loaded[0]() is None)
            return super().run()

    monkeypatch.setattr(source, "load_shard", watched_load)
    monkeypatch.setattr(client, "Session", Watched)
    start(SEALED)
    assert at_work == [True]


def test_a_client_whose_labels_do_not_fit_the_run_says_so_and_fails(
    start: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused(AskedOnce):
        """A session that tells the server of a refusal and is dismissed, as a real one is."""

        def run(self) -> SessionEnd:
            task = Task(RunId("run-1"), RoundId(0), INTRODUCE, terms_to_bytes(self.terms))
            assert answer(self._handle, task) == (None, "its data do not fit this run")
            return SessionEnd(EndKind.DISMISSED, "over")

    monkeypatch.setattr(client, "Session", Refused)
    (tmp_path / "shard.npz").unlink()
    np.savez(tmp_path / "shard.npz", ids=[1, 2], features=["a"], X=[[1.0], [2.0]], y=[0, 1])
    with pytest.raises(DataUnfit, match=r"takes the labels -1 and \+1 only"):
        start(SEALED)


def test_a_client_takes_a_table_and_logs_its_guesses_without_cells(
    start: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "shard.npz").unlink()
    write_table(tmp_path, CLINIC)
    caplog.set_level("INFO")
    start(SEALED, "--data", str(tmp_path / "table.csv"))
    assert "guessed: column 'patient' has the ids" in caplog.text
    assert "typical" not in caplog.text
    with pytest.raises(InvalidInput, match="has no labels, but the roster says that south has them"):
        start(SEALED, "--data", str(write_table(tmp_path, "id,age\n1,2\n2,3\n", name="other.csv")))


def test_nothing_is_accepted_by_an_empty_variable(start: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCHEL_ACCEPT", "")
    start(SEALED)
    with pytest.raises(Refusal):
        start(PAPER)


def test_a_client_takes_part_with_the_ciphers_that_its_operator_accepts(start: Callable[..., None]) -> None:
    masked = SEALED.model_copy(update={"cipher": "masks"})
    for terms in (SEALED, masked):
        start(terms)
        start(terms, "--accept-cipher", "paillier", "--accept-cipher", "masks")
    start(masked, "--accept-cipher", "masks")
    with pytest.raises(Refusal, match="--accept-cipher masks"):
        start(masked, "--accept-cipher", "paillier")
    with pytest.raises(InvalidInput, match="paillier, masks"):
        start(SEALED, "--accept-cipher", "rot13")


@pytest.mark.parametrize("word", ["all", "sealed", ""])
def test_an_unknown_word_is_refused_with_those_that_there_are(start: Callable[..., None], word: str) -> None:
    with pytest.raises(InvalidInput, match="is not one of: paper, plain, 2048-bits, subgroup, hmac"):
        start(PAPER, "--accept", "paper", "--accept", word)


def test_the_help_explains_every_word() -> None:
    shown = CliRunner().invoke(app, ["client", "--help"], env={"COLUMNS": "1000", "TERM": "dumb"}).output
    for concession, meaning in MEANINGS.items():
        assert f"{concession} ({meaning})" in shown
