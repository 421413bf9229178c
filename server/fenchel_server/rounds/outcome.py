"""The outcome of a run: its rounds and last certificate, its costs, and who got the model."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Self

from fenchel_common import jsonrecord
from fenchel_common.ids import ClientId
from fenchel_common.metrics import LastCertificate, RoundMetrics, last_certificate
from fenchel_common.runconfig import RunConfig
from fenchel_common.selection import LambdaPath
from fenchel_server.release import ReleaseSummary
from fenchel_server.rounds.ledger import TOTAL, ClientCosts, Kind, Traffic, cpu_seconds_of, traffic_of
from fenchel_server.rounds.pathtable import PathRow, path_table
from fenchel_server.store import RoundRecord, RunRecord


@dataclass(frozen=True, slots=True)
class ClientTotals:
    """The costs of one client in the whole run; `rss_mib` is the peak memory of its process, in MiB.

    Fields with a default are missing in records of the first versions.
    """

    encrypt_s: float
    decrypt_s: float
    serialise_s: float
    compute_s: float
    wire_s: float
    wait_s: float
    bytes_up: int
    bytes_down: int
    rss_mib: float
    ciphertext_up: int = 0
    ciphertext_down: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The record of a run's end.

    Attributes
    ----------
    rounds
        The number of committed training rounds, without a closing one.
    rtc_per_round
        The most frequent number of round trips in a round; rounds that only certify, or that sync, have others.
    seconds
        By kind, the sums over the set-up, all rounds and the last phase.
    round_seconds
        By kind, the medians over the rounds with `rtc_per_round` round trips; empty without a round.
    cpu_seconds
        Of the `server`, and of all `parties` together, over the same time as `seconds`.
    undelivered
        For each client that did not get the model, why.
    release
        The record of the released model; None if the server must not get the model.
    path
        In a run with a path, what it found for each λ.

    Fields with a default are missing in records of the first versions.
    """

    rounds: int
    rtc_per_round: int | None
    certificate: LastCertificate
    seconds: Mapping[str, float]
    round_seconds: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    bytes: Traffic
    clients_detail: Mapping[ClientId, ClientTotals] = field(default_factory=dict)
    undelivered: Mapping[ClientId, str]
    release: ReleaseSummary | None = None
    path: tuple[PathRow, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The outcome from the text that `to_json` gave."""
        return jsonrecord.from_json(cls, text)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The outcome from the mapping that `to_mapping` gave."""
        return jsonrecord.from_mapping(cls, mapping)

    def to_json(self) -> str:
        return jsonrecord.to_json(self)

    def to_mapping(self) -> dict[str, Any]:
        return jsonrecord.to_mapping(self)


def certificate_of(rounds: Sequence[RoundRecord]) -> LastCertificate:
    """The last certificate of a run's committed rounds, of which the first is the set-up."""
    return last_certificate(_training_metrics(rounds))


def outcome_of(
    rounds: Sequence[RoundRecord],
    finish: RoundRecord | None,
    undelivered: Mapping[ClientId, str],
    *,
    release: ReleaseSummary | None = None,
    path: LambdaPath | None = None,
) -> RunOutcome:
    """The outcome of the committed rounds, of which the first is the set-up, and of the last phase.

    `finish` has the costs of the last phase; it is None before that phase. `undelivered` says for each client that did
    not get the model why.
    """
    metrics = _training_metrics(rounds)
    trips = [len(one.phases) for one in metrics]
    usual = statistics.mode(trips) if trips else None
    usual_rounds = [record for record, count in zip(rounds[1:], trips, strict=True) if count == usual]
    records = (*rounds, *(() if finish is None else (finish,)))
    kinds = (TOTAL, *map(str, Kind))
    return RunOutcome(
        rounds=sum(not one.closing for one in metrics),
        rtc_per_round=usual,
        certificate=last_certificate(metrics),
        seconds={kind: sum(_spent_on(kind, record) for record in records) for kind in kinds},
        round_seconds={
            kind: statistics.median(_spent_on(kind, record) for record in usual_rounds)
            for kind in kinds
            if usual_rounds
        },
        cpu_seconds=cpu_seconds_of(records),
        bytes=reduce(add, map(traffic_of, records)),
        clients_detail=_clients_detail(records),
        undelivered=dict(undelivered),
        release=release,
        path=() if path is None else path_table(path, metrics),
    )


def outcome_of_record(record: RunRecord, rounds: Sequence[RoundRecord]) -> RunOutcome | None:
    """The outcome on record, or the one that the run would have if it ended after its committed rounds.

    None if nothing is committed yet.
    """
    if record.outcome is not None:
        return RunOutcome.from_json(record.outcome)
    return outcome_of(rounds, None, {}, path=RunConfig.from_json(record.config).path) if rounds else None


def _training_metrics(rounds: Sequence[RoundRecord]) -> list[RoundMetrics]:
    """The metrics of all rounds but the first, which is the set-up and has none."""
    return [RoundMetrics.from_json(record.metrics) for record in rounds[1:]]


def _clients_detail(records: Sequence[RoundRecord]) -> dict[ClientId, ClientTotals]:
    """Each client's costs over the whole run; a client that was not asked in a round waited for all of it."""
    names = sorted({client for record in records for client in record.clients})
    return {client: _totals_of(client, records) for client in names}


def _totals_of(client: ClientId, records: Sequence[RoundRecord]) -> ClientTotals:
    costs = [record.clients.get(client) or ClientCosts().record(record.seconds[TOTAL]) for record in records]

    def total(name: str) -> float:
        return sum(one.get(name, 0.0) for one in costs)

    return ClientTotals(
        encrypt_s=total("encrypt_s"),
        decrypt_s=total("decrypt_s"),
        serialise_s=total("serialise_s"),
        compute_s=total("compute_s"),
        wire_s=total("wire_s"),
        wait_s=total("wait_s"),
        bytes_up=int(total("bytes_up")),
        bytes_down=int(total("bytes_down")),
        rss_mib=max(one["peak_memory_bytes"] for one in costs) / 2**20,
        ciphertext_up=int(total("ciphertext_up")),
        ciphertext_down=int(total("ciphertext_down")),
        cpu_seconds=total("cpu_seconds"),
    )


def _spent_on(kind: str, record: RoundRecord) -> float:
    return record.seconds.get(kind, 0.0)
