"""A recorded run: its scenario, the messages that passed the server, and the truth that no adversary is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fenchel_client.party import Party
from fenchel_common import defaults
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import ModelPart
from fenchel_common.wire.setup import model_part_to_bytes
from fenchel_deploy.attacks.tables import Table
from fenchel_deploy.attacks.views import Array, PartyView, Transcript
from fenchel_deploy.inprocess.parties import ATTEMPT, asked
from fenchel_deploy.inprocess.phases import run_phases
from fenchel_server.contract import AlgorithmServer

Local = Literal["paper", "corrective"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The table, the privacy level and the steps of a recorded run."""

    level: Privacy
    table: Table = "dense"
    local: Local = "paper"
    loss: Literal["hinge", "logistic"] = "hinge"
    h: int | None = None
    alignment: Literal["ecdh", "hmac"] = "ecdh"
    rounds: int = 14

    def config(self, name: str) -> RunConfig:
        settings: dict[str, object] = {"local": self.local, "loss": self.loss, "lambda": defaults.ATTACKED_LAMBDA}
        if self.h is not None:
            settings["h"] = self.h
        return RunConfig.from_mapping(
            {
                "name": name,
                "settings": settings,
                "privacy": self.level,
                "benchmark": self.level is Privacy.PLAIN,
                "acknowledge_row_leak": True,
                "alignment": self.alignment,
                "key": {"bits": defaults.DEMO_KEY_BITS},
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


class Recorded:
    """A run that was recorded. Its parties still answer, so that a server that leaves the protocol can be played."""

    def __init__(
        self,
        transcript: Transcript,
        views: Mapping[ClientId, PartyView],
        truth: Truth,
        *,
        parties: Mapping[ClientId, Party],
        restart: Callable[[], Mapping[ClientId, Party]],
        restore: Callable[[bytes], AlgorithmServer],
        snapshot: bytes,
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

    def restarted(self) -> "Recorded":
        """The same run with parties restarted from their state folders; their counts of refusals begin at zero."""
        return Recorded(
            self.transcript,
            self.views,
            self.truth,
            parties=self._restart(),
            restart=self._restart,
            restore=self._restore,
            snapshot=self._snapshot,
        )

    def restarted_parties(self) -> Mapping[ClientId, Party]:
        """The parties, restarted from their state folders as these were when the set-up was over."""
        return self._restart()

    def server(self, snapshot: bytes | None = None) -> AlgorithmServer:
        """The real server half, from a snapshot of its own or from the end of the set-up."""
        return self._restore(self._snapshot if snapshot is None else snapshot)

    def end_for(self, client: ClientId) -> bytes:
        """The message of the real server to a party at the end of a run that ended before its first round."""
        return model_part_to_bytes(ModelPart(self.server().last_state(client), primal=None, dual=None, gap=None))

    def left_out(self, results: Mapping[str, Mapping[ClientId, bytes]]) -> Mapping[ClientId, str]:
        """Whom the real server leaves out of its first round, and why, given these results of each phase."""
        algorithm, everyone = self.server(), frozenset(self._parties)
        first = algorithm.begin_round(RoundId(1), everyone, everyone, attempt=ATTEMPT)
        report = run_phases(first, algorithm, lambda phase, client, _: results.get(phase, {}).get(client))
        return report.metrics.absences
