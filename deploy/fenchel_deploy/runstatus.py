"""The status of a run as people see it."""

from collections.abc import Sequence

from fenchel_deploy.times import clock_time
from fenchel_server.store import PartyRecord, RunRecord, RunStatus

INTERRUPTED = "interrupted"
"""Shown in place of `running` if no server process is at work on the run."""


def shown_status(record: RunRecord, *, served: bool) -> str:
    """The status of a run as people see it; `served` says whether a server process uses the state folder."""
    return INTERRUPTED if record.status is RunStatus.RUNNING and not served else str(record.status)


def shown_reason(
    record: RunRecord, parties: Sequence[PartyRecord], *, served: bool, queue: Sequence[RunRecord] = ()
) -> str:
    """The reason on record; of a run under way whom it waits for, or what to do if its server has gone.

    `queue` has the runs that wait, in order; of one of them its place is told.
    """
    if record.status is RunStatus.QUEUED and record in queue:
        idle = "" if served else "; no server works on it now; start 'fenchel server' on this state folder"
        return f"number {queue.index(record) + 1} in the queue{idle}"
    if record.status is not RunStatus.RUNNING:
        return record.reason
    if not served:
        return "no server works on it now; start the server again, and it continues after the last committed round"
    missing = [f"{one.party} (since {clock_time(one.since)})" for one in parties if not one.connected]
    working = [f"{one.party} ({one.phase})" for one in parties if one.connected and one.run == record.run]
    told = [f"not connected: {', '.join(missing)}"] if missing else []
    told += [f"at work: {', '.join(working)}"] if working else []
    return "; ".join(told)
