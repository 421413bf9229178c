"""Federations on this machine that stay between trainings: starting their processes takes longer than a small training.

A federation has a server and a client for each party, in a temporary folder. Its processes end with `close_all`, at the
end of this process however it ends, and after a training that raised an exception, an interrupt included.
"""

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fenchel_client.concessions import Concession
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed
from fenchel_common.model import Model, read_model
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.folders import shard_file
from fenchel_deploy.local import LocalFederation
from fenchel_server.queue import submit
from fenchel_server.store import SqliteStore

MOST_WARM: Final = 2
"""The most federations that stay; the one that was used least recently ends."""

_warm: dict[tuple[str, ...], "WarmFederation"] = {}
_turn = threading.RLock()


@dataclass(frozen=True, slots=True)
class Trained:
    """A run that is over: its model by party, its outcome as `fenchel runs show` has it, and its status."""

    models: tuple[Model, ...]
    outcome: Mapping[str, Any]
    status: str
    reason: str


def train(shards: Mapping[str, Shard], config: RunConfig) -> Trained:
    """Trains over the shards, one party with processes of its own for each; `FederationFailed` without a model.

    Trainings of several threads take turns.
    """
    with _turn, _federation(tuple(shards)) as federation:
        return federation.train(shards, config)


def close_all() -> None:
    """Ends the processes of all federations of this process, and removes their folders."""
    with _turn:
        while _warm:
            _warm.popitem()[1].close()


atexit.register(close_all)
# A forked child has copies of the pipes, but the federations are its parent's.
os.register_at_fork(after_in_child=_warm.clear)


@contextmanager
def _federation(names: tuple[str, ...]) -> Iterator["WarmFederation"]:
    federation = _warm.pop(names, None) or WarmFederation()
    try:
        yield federation
    except BaseException:
        federation.close()
        raise
    while len(_warm) >= MOST_WARM:
        _warm.pop(next(iter(_warm))).close()
    _warm[names] = federation


class WarmFederation:
    """A federation whose server stays; each training is a run of its own, with new keys and new tables."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="fenchel-"))
        self._started = ExitStack()
        self._federation: LocalFederation | None = None

    def train(self, shards: Mapping[str, Shard], config: RunConfig) -> Trained:
        if self._federation is None:
            federation = self._start(shards, config)
        else:
            federation = self._federation
            self._hand_out(shards)
            with SqliteStore.operate(federation.state) as store:
                submit(store, config)
        ended = self._followed(federation, config.name)
        if ended["outcome"] is None:
            raise FederationFailed(f"the training {ended['status']}: {ended['reason']}")
        models = tuple(map(read_model, federation.models(ended["run"])))
        return Trained(models, ended["outcome"], ended["status"], ended["reason"])

    def close(self) -> None:
        self._started.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, shards: Mapping[str, Shard], config: RunConfig) -> LocalFederation:
        federation = LocalFederation(
            self._directory, shards, config, server_options=["--stay"], client_options=_accepting_all()
        )
        self._federation = self._started.enter_context(federation)
        return federation

    def _hand_out(self, shards: Mapping[str, Shard]) -> None:
        """Replaces the parties' tables; each client reads its own again when the next run begins."""
        for name, shard in shards.items():
            file = shard_file(self._directory, name)
            fresh = file.with_suffix(".fresh.npz")
            shard.save(fresh)
            fresh.replace(file)

    def _followed(self, federation: LocalFederation, name: str) -> Mapping[str, Any]:
        """The event with which the run of this name ended."""
        for event in federation.events():
            if event["event"] == "ended" and event["name"] == name:
                return event
            if event["event"] == "waiting":
                _check_alive(federation)
        raise FederationFailed(f"the server ended:\n{federation.log('server')[-2000:]}")


def _check_alive(federation: LocalFederation) -> None:
    for name, process in federation.clients.items():
        if process.poll() is not None:
            raise FederationFailed(f"the client of {name} ended:\n{federation.log(name)[-2000:]}")


def _accepting_all() -> Sequence[str]:
    """Options of clients whose operator is the one who trains."""
    return [word for concession in Concession for word in ("--accept", str(concession))]
