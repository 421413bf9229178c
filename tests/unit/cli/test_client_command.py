"""`fenchel client`: what its operator agrees to by its options."""

import signal
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fenchel_client.concessions import MEANINGS
from fenchel_client.session import EndKind, SessionEnd
from fenchel_client.task import Task
from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.ids import RoundId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import INTRODUCE
from fenchel_common.wire.setup import terms_to_bytes
from fenchel_deploy.cli import client
from support.kits import make_federation
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
    load = Shard.load

    def watched_load(path: Path) -> Shard:
        shard = load(path)
        loaded.append(weakref.ref(shard.X))
        return shard

    class Watched(AskedOnce):
        def run(self) -> SessionEnd:
            at_work.append(loaded[0]() is None)
            return super().run()

    monkeypatch.setattr(Shard, "load", watched_load)
    monkeypatch.setattr(client, "Session", Watched)
    start(SEALED)
    assert at_work == [True]


def test_nothing_is_accepted_by_an_empty_variable(start: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCHEL_ACCEPT", "")
    start(SEALED)
    with pytest.raises(Refusal):
        start(PAPER)


@pytest.mark.parametrize("word", ["all", "sealed", ""])
def test_an_unknown_word_is_refused_with_those_that_there_are(start: Callable[..., None], word: str) -> None:
    with pytest.raises(InvalidInput, match="is not one of: paper, plain, 2048-bits, subgroup, hmac"):
        start(PAPER, "--accept", "paper", "--accept", word)


def test_the_help_explains_every_word() -> None:
    shown = CliRunner().invoke(app, ["client", "--help"], env={"COLUMNS": "1000", "TERM": "dumb"}).output
    for concession, meaning in MEANINGS.items():
        assert f"{concession} ({meaning})" in shown
