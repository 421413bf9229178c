"""The events of a run as its server's state folder shows them, for whoever follows it beside the server."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fenchel_common.runconfig import RunConfig
from fenchel_deploy.runstatus import INTERRUPTED, shown_reason, shown_status
from fenchel_server.announcements import Event, begins_event, ended_event, parties_event, ready_event, round_event
from fenchel_server.store import PartyRecord, RunRecord, RunStatus, SqliteStore
from fenchel_server.store.base import ENDED, SETUP_ROUND
from fenchel_server.store.statedir import is_served

LOOK_S: Final = 1.0
"""How often the state is looked at; the server notes what the parties do as often."""


def run_events(state: Path, word: str) -> Iterator[Event]:
    """The events of a run from its first committed round on, as they come to be on record, until it has ended."""
    pause = threading.Event()
    with SqliteStore.inspect(state) as store:
        record = store.find(word)
        yield begins_event(record, store.last_round(record.run))
        told_rounds, told_status = 0, ""
        told_parties: tuple[PartyRecord, ...] = ()
        while True:
            record = store.run(record.run)
            last = store.last_round(record.run)
            if last is not None and last >= told_rounds:
                yield from _rounds(store, record, told_rounds)
                told_rounds = last + 1
            if record.status in ENDED:
                yield ended_event(record)
                return
            served = is_served(state)
            status = shown_status(record, served=served)
            if status != told_status:
                reason = shown_reason(record, (), served=served) if status == INTERRUPTED else record.reason
                yield {"event": "status", "run": record.run, "status": status, "reason": reason}
                told_status = status
            parties = store.parties() if served and record.status is RunStatus.RUNNING else ()
            if parties != told_parties:
                yield parties_event(parties)
                told_parties = parties
            pause.wait(LOOK_S)


def _rounds(store: SqliteStore, record: RunRecord, first: int) -> Iterator[Event]:
    """The events of the committed rounds from `first` on."""
    gap_target = RunConfig.from_json(record.config).stop.gap
    for committed in store.rounds(record.run)[first:]:
        if committed.round_id == SETUP_ROUND:
            yield ready_event(record)
        else:
            yield round_event(record.run, committed, gap_target=gap_target)
