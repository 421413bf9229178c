"""A recorded run: its scenario, the messages that passed the server, and the truth that no adversary is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fenchel_client.party import Party
from fenchel_common import defaults
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import CipherWord, Privacy
from fenchel_common.runconfig import AlignmentWord, RunConfig
from fenchel_deploy.attacks.tables import Table
from fenchel_deploy.attacks.views import Array, PartyView, Transcript
from fenchel_deploy.inprocess.parties import ATTEMPT, asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import AlgorithmServer, ServerState

Local = Literal["paper", "corrective"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The table, the privacy level and the steps of a recorded run."""

    level: Privacy
    table: Table = "dense"
    local: Local = "paper"
    loss: Literal["hinge", "logistic"] = "hinge"
    h: int | None = None
    alignment: AlignmentWord = "blinders"
    rounds: int = 14
    every: int | None = None
    """Rounds between two certificates or measurements; as is usual for the algorithm if not given."""
    algorithm: Literal["hyfdca", "fedavg"] = "hyfdca"
    cipher: CipherWord = "paillier"
    releases: bool = False
    """Whether the roster releases the final model to the server."""

    def config(self, name: str) -> RunConfig:
        settings: dict[str, object] = {"loss": self.loss, "lambda": defaults.ATTACKED_LAMBDA}
        if self.algorithm == "hyfdca":
            settings["local"] = self.local
        if self.every is not None:
            settings["certificate_every" if self.algorithm == "hyfdca" else "measure_every"] = self.every
        if self.h is not None:
            settings["h"] = self.h
        return RunConfig.from_mapping(
            {
                "name": name,
                "algorithm": self.algorithm,
                "settings": settings,
                "privacy": self.level,
                "cipher": self.cipher,
                "benchmark": self.level is Privacy.PLAIN,
                "acknowledge_row_leak": True,
                "alignment": self.alignment,
                "key": {"bits": defaults.DEMO_KEY_BITS},
                # Narrow inner products are divided by numbers that the server does not know; these are not.
                "precision": 64,
                "stop": {"gap": defaults.ATTACKED_GAP},
            }
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """Values that no adversary is given: rows in the order of the blocks, labels, ids, and rows of nobody."""

    rows: Mapping[ClientId, Array] = field(repr=False)
    labels: Mapping[ClientId, Array] = field(repr=False)
    ids: Mapping[ClientId, tuple[str, ...]] = field(repr=False)
    strangers: Mapping[ClientId, Array] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Restarted:
    """Parties that began again from what was in their state folders at the end of the set-up, and their folders."""

    parties: Mapping[ClientId, Party]
    state: Mapping[ClientId, Path]


class Recorded:
    """A run that was recorded. Its parties still answer, so that a server that leaves the protocol can be played."""

    def __init__(
        self,
        transcript: Transcript,
        views: Mapping[ClientId, PartyView],
        truth: Truth,
        *,
        parties: Mapping[ClientId, Party],
        restart: Callable[[], Restarted],
        restore: Callable[[ServerState], AlgorithmServer],
        snapshot: ServerState,
    ) -> None:
        self.transcript = transcript
        self.views = views
        self.truth = truth
        self._parties = parties
        self._restart = restart
        self._restore = restore
        self._snapshot = snapshot

    @property
    def family(self) -> str:
        return self.transcript.config.algorithm_settings().family.name

    def ask(self, client: ClientId, round_id: int, phase: str, body: bytes) -> bytes:
        """Hands a party a task as if it came from the server; errors are the party's refusal."""
        return asked(self._parties[client], self.transcript.run, round_id, phase, body)

    def restarted(self) -> Restarted:
        """The parties, restarted; their counts of refusals begin at zero."""
        return self._restart()

    def server(self, snapshot: ServerState | None = None) -> AlgorithmServer:
        """The real server half, from a snapshot of its own or from the end of the set-up."""
        return self._restore(self._snapshot if snapshot is None else snapshot)

    def left_out(self, results: Mapping[str, Mapping[ClientId, bytes]]) -> Mapping[ClientId, str]:
        """Whom the real server leaves out of its first round, and why, given these results of each phase."""
        algorithm, everyone = self.server(), frozenset(self._parties)
        first = algorithm.begin_round(RoundId(1), everyone, everyone, attempt=ATTEMPT)
        report = run_phases(first, algorithm, lambda phase, client, _: results.get(phase, {}).get(client))
        return report.metrics.absences
