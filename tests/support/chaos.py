"""A federation of real processes whose parties are killed, paused and cut off while it runs, in an order set by a seed.

    python -m support.chaos KxQ SEED DISTURBANCES

runs one with corrective steps, encrypted, and prints what was done in which round and how the run ended.
"""

import itertools
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from fenchel_common.algorithms.corrective.family import WITH_PAIRS
from fenchel_common.data.shard import Shard
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from support.kills import kill_client, kill_server
from support.network import Network
from support.tables import named_shards, small_dataset

KILL, PAUSE, CUT = KINDS = ("kill", "pause", "cut")
SERVER: Final = "kill the server"
IN_ROUNDS: Final = frozenset(WITH_PAIRS.phases)
"""The phases of rounds, with corrective steps and with pairs of points."""
CALM_ROUNDS: Final = 2
"""Rounds between two disturbances, so that the run comes on in between."""

Done = list[tuple[int, str, str]]
"""The round after which, the kind of disturbance, and the party."""


class ShakenFederation(LocalFederation):
    """A federation each of whose parties reaches the server by a network of its own, which can be cut."""

    def __init__(self, directory: Path, shards: Mapping[str, Shard], config: RunConfig) -> None:
        super().__init__(directory, shards, config)
        self._networks: dict[str, Network] = {}
        self._open = ExitStack()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            super().__exit__(kind, error, trace)

    def start_client(self, name: str) -> None:
        if name not in self._networks:
            self._networks[name] = self._open.enter_context(Network(self.port))
        self._dialled_port = self._networks[name].port
        super().start_client(name)

    def disturb(self, kind: str, name: str) -> None:
        """Kills a party and starts it again, breaks its connection, or stops it until `resume`."""
        if kind == KILL:
            kill_client(self, name)
            self.start_client(name)
        elif kind == CUT:
            self._networks[name].cut()
        else:
            self.clients[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Lets a party go on that was stopped."""
        self.clients[name].send_signal(signal.SIGCONT)


def disturbances(parties: list[str], seed: int, count: int) -> list[tuple[str, str]]:
    """So many kinds of disturbance with their parties: each party once in turn, and all kinds equally often."""
    rng = np.random.default_rng(seed)
    names = itertools.chain.from_iterable(rng.permutation(parties).tolist() for _ in itertools.count())
    kinds = itertools.chain.from_iterable(rng.permutation(KINDS).tolist() for _ in itertools.count())
    return list(itertools.islice(zip(kinds, names, strict=False), count))


def shaken_run(federation: ShakenFederation, due: list[tuple[str, str]]) -> tuple[Done, dict[str, Any]]:
    """Disturbs a run as soon as it has come on since the last time; what was done, and the event of the run's end.

    A party that was stopped goes on after a round without it.
    """
    done: Done = []
    left, stopped, calm = iter(due), "", 0
    for event in federation.events():
        if event["event"] == "ended":
            return done, event
        if event["event"] != "round":
            continue
        if stopped and stopped in event["absences"]:
            federation.resume(stopped)
            stopped = ""
        calm = 0 if event["absences"] else calm + 1
        if stopped or calm < CALM_ROUNDS:
            continue
        kind, name = next(left, ("", ""))
        if kind:
            federation.disturb(kind, name)
            done.append((event["round"], kind, name))
            stopped, calm = (name if kind == PAUSE else ""), 0
    raise AssertionError("the server ended before the run")


def stormy_run(federation: ShakenFederation, seed: int, count: int) -> tuple[Done, dict[str, Any]]:
    """Disturbs a run at the beginning of any phase of any round, the server too; otherwise as `shaken_run`.

    A party that was stopped goes on when the next round has ended.
    """
    rng, done, stopped, round_id = np.random.default_rng(seed), Done(), "", 0
    while True:
        for event in federation.events():
            if event["event"] == "ended":
                return done, event
            if event["event"] == "round":
                round_id = event["round"]
            if event["event"] == "round" and stopped:
                federation.resume(stopped)
                stopped = ""
            if event["event"] != "phase" or event["phase"] not in IN_ROUNDS or len(done) == count or rng.random() < 0.6:
                continue
            kind, name = str(rng.choice([*KINDS, SERVER])), str(rng.choice(sorted(federation.clients)))
            if kind == SERVER:
                kill_server(federation)
                federation.start_server()
            elif name != stopped and not (stopped and kind == PAUSE):
                federation.disturb(kind, name)
                stopped = name if kind == PAUSE else stopped
            else:
                continue
            done.append((round_id, kind, name))
            if kind == SERVER:
                break
        else:
            raise AssertionError("the server ended before the run")


def chaos_config(gap: float) -> RunConfig:
    """A run of corrective steps that waits for parties that are gone, and does not wait long for an answer."""
    return RunConfig.from_mapping(
        {
            "name": "chaos",
            "settings": {"loss": "hinge", "lambda": 1e-3},
            "key": {"bits": 2048},
            "alignment": "hmac",
            "round": {"deadline_s": 5.0, "quorum": 0.5, "wait_s": 60.0},
            "stop": {"gap": gap, "rounds": 400},
        }
    )


def main(grid: str, seed: str, count: str) -> Iterator[str]:
    """The lines that the command prints."""
    rows, columns = (int(number) for number in grid.split("x"))
    shards = named_shards(small_dataset(), grid=(rows, columns))
    with (
        tempfile.TemporaryDirectory(prefix="fenchel-chaos-") as directory,
        ShakenFederation(Path(directory), shards, chaos_config(1e-6)) as federation,
    ):
        done, ended = shaken_run(federation, disturbances(list(shards), int(seed), int(count)))
        federation.wait()
    yield from (f"after round {number}: {kind} {name}" for number, kind, name in done)
    yield json.dumps(ended["outcome"])


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in main(*sys.argv[1:]))
