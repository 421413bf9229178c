"""Runs by real processes on this machine: kits, set-up, encryption and, on demand, a relay that delays messages."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fenchel_common import defaults
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FederationFailed
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.papers.algorithms import CORRECTIVE, KEY_BITS, level_of, name_in_runs
from fenchel_deploy.wan import Wan
from fenchel_server.cohorts import OverlapRule
from fenchel_server.rounds.ledger import TOTAL, Kind
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store.base import WITH_MODEL

WORK_OF_SERVER = (Kind.COMPUTE, Kind.CLIENTS, Kind.STORE, Kind.OTHER)


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Seconds of a median round by kind, and what a whole run took.

    Attributes
    ----------
    setup_s
        From the start of the processes to the first round.
    rounds_s
        All rounds together.
    total_s
        From the start of the processes to the end of the run.
    gap
        The last certified gap; None if there is none.
    """

    compute_s: float
    encryption_s: float
    server_s: float
    wire_s: float
    wait_s: float
    round_s: float
    trips: int
    sent_bytes: int
    rounds: int
    setup_s: float
    rounds_s: float
    total_s: float
    gap: float | None


def run_config(
    algorithm: str, settings: Mapping[str, object], *, overlap: OverlapRule, rounds: int, gap: float | None
) -> RunConfig:
    """The configuration of an experiment's run: HyFDCA at `paper`, ours sealed with masks, others in clear."""
    level = level_of(algorithm)
    return RunConfig.from_mapping(
        {
            "name": "experiment",
            "algorithm": name_in_runs(algorithm),
            "settings": dict(settings),
            "privacy": level,
            "benchmark": level is Privacy.PLAIN,
            "acknowledge_row_leak": level is Privacy.PAPER,
            "cipher": "masks" if algorithm in CORRECTIVE else "paillier",
            "key": {"bits": KEY_BITS},
            "overlap": overlap.value,
            "round": {"deadline_s": defaults.REPEATED_DEADLINE_S, "quorum": 1.0},
            "stop": {"gap": defaults.REPEATED_GAP if gap is None else gap, "rounds": rounds},
            "seed": 0,
        }
    )


def measured_by_processes(
    shards: Sequence[Shard],
    algorithm: str,
    settings: Mapping[str, object],
    *,
    overlap: OverlapRule,
    profile: str,
    rounds: int,
    gap: float | None = None,
) -> ProcessCost:
    """Runs so many rounds, or to a certified gap, and returns the costs."""
    config = run_config(algorithm, settings, overlap=overlap, rounds=rounds, gap=gap)
    named = {f"party-{number:03d}": shard for number, shard in enumerate(shards)}
    began, first, ended = time.monotonic(), None, None
    with (
        tempfile.TemporaryDirectory(prefix="fenchel-experiment-") as scratch,
        LocalFederation(Path(scratch), named, config, wan=Wan(profile)) as federation,
    ):
        for event in federation.events():
            if event["event"] == "phase" and event["round"] and first is None:
                first = time.monotonic()
            if event["event"] == "ended":
                ended, last = event, time.monotonic()
        federation.wait()
        if ended is None or ended["status"] not in (*WITH_MODEL, "exhausted") or first is None:
            reason = "the server ended before the run did" if ended is None else ended["reason"]
            raise FederationFailed(f"a run of the experiment failed: {reason}\n{federation.log('server')[-2000:]}")
    return _cost(ended, setup_s=first - began, total_s=last - began)


def _cost(ended: Mapping[str, Any], *, setup_s: float, total_s: float) -> ProcessCost:
    outcome = RunOutcome.from_mapping(ended["outcome"])
    spent = outcome.round_seconds

    def summed(*kinds: Kind) -> float:
        return sum(spent.get(kind, 0.0) for kind in kinds)

    parties = outcome.clients_detail.values()
    return ProcessCost(
        compute_s=summed(Kind.PARTIES, Kind.SERIALISE),
        encryption_s=summed(Kind.ENCRYPT, Kind.DECRYPT),
        server_s=summed(*WORK_OF_SERVER),
        wire_s=summed(Kind.WIRE),
        wait_s=summed(Kind.WAIT),
        round_s=spent.get(TOTAL, 0.0),
        trips=outcome.rtc_per_round or 0,
        sent_bytes=max(party.bytes_up + party.bytes_down for party in parties) // max(outcome.rounds, 1),
        rounds=outcome.rounds,
        setup_s=setup_s,
        rounds_s=total_s - setup_s,
        total_s=total_s,
        gap=outcome.certificate.gap,
    )
