"""Facts about runs in words that several commands use."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.cli.times import clock_time, utc
from fenchel_deploy.comparison import BYTES_IN_WORDS
from fenchel_server.store import PartyRecord, RunRecord, RunStatus
from fenchel_server.store.base import WITH_MODEL

INTERRUPTED = "interrupted"
"""Shown in place of `running` if no server process is at work on the run."""


def cost_rows(costs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """For each kind of cost its name, that of the whole run, and that of a usual round; for people to read.

    `costs` has the fields of a `RunOutcome`. For CPU seconds and bytes, a usual round is the mean over all rounds.
    """
    for kind, seconds in costs["seconds"].items():
        usual = costs["round_seconds"].get(kind)
        yield f"{kind}, seconds", f"{seconds:.2f}", "" if usual is None else f"{usual:.3f}"
    for whose, seconds in costs.get("cpu_seconds", {}).items():
        yield f"{whose}, CPU seconds", f"{seconds:.2f}", f"{seconds / max(costs['rounds'], 1):.3f}"
    for way, count in costs["bytes"].items():
        if count is not None:
            yield BYTES_IN_WORDS[way], f"{count:,}", f"{count // max(costs['rounds'], 1):,}"


def exit_code_of(ended: frozenset[RunStatus]) -> ExitCode:
    """The exit code of a command whose runs ended so."""
    if ended <= {RunStatus.COMPLETED}:
        return ExitCode.DONE
    return ExitCode.EXHAUSTED if ended <= WITH_MODEL else ExitCode.MISSED


def shown_status(record: RunRecord, *, served: bool) -> str:
    """The status of a run as people see it; `served` says whether a server process uses the state folder."""
    return INTERRUPTED if record.status is RunStatus.RUNNING and not served else str(record.status)


def shown_reason(record: RunRecord, parties: Sequence[PartyRecord], *, served: bool) -> str:
    """The reason on record; of a run under way whom it waits for, or what to do if its server has gone."""
    if record.status is not RunStatus.RUNNING:
        return record.reason
    if not served:
        return "no server works on it now; start the server again, and it continues after the last committed round"
    missing = [f"{one.party} (since {clock_time(one.since)})" for one in parties if not one.connected]
    working = [f"{one.party} ({one.phase})" for one in parties if one.connected and one.run == record.run]
    told = [f"not connected: {', '.join(missing)}"] if missing else []
    told += [f"at work: {', '.join(working)}"] if working else []
    return "; ".join(told)


def party_facts(parties: Sequence[PartyRecord]) -> list[dict[str, object]]:
    """What the server knows of each party, for programs."""
    return [
        {
            "party": one.party,
            "connected": one.connected,
            "since": utc(one.since),
            "reason": one.reason,
            "owes": None if one.phase is None else {"run": one.run, "round": one.round_id, "phase": one.phase},
        }
        for one in parties
    ]
