"""`fenchel client`: what its operator agrees to by its options."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from fenchel_client.session import EndKind, SessionEnd, Task
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


PAPER = RunConfig.from_mapping({"name": "test", "privacy": "paper", "acknowledge_row_leak": True})
PLAIN = RunConfig.from_mapping({"name": "test", "privacy": "plain", "benchmark": True})


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


def test_a_client_takes_part_in_weaker_runs_only_where_its_operator_says_so(start: Callable[..., None]) -> None:
    for terms, level in ((PAPER, "paper"), (PLAIN, "plain")):
        with pytest.raises(Refusal, match=f"--accept {level}"):
            start(terms)
        start(terms, "--accept", level)
    with pytest.raises(InvalidInput, match="--accept: 'all' is not one of: sealed, paper, plain"):
        start(PAPER, "--accept", "all")
