"""The server process: it listens, works on the runs on record, and announces what happens as events.

Events are mappings that can be written as JSON lines: `listening`, `begins`, `parties`, `waiting`, `phase`, `warning`,
`ready`, `round`, `ended`, `leaving`.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from fenchel_common.crypto.sumcores import use_all_cores
from fenchel_common.dismissal import UnfitData
from fenchel_common.errors import InvalidConfig
from fenchel_common.identity import Address, Kit, LiveKit
from fenchel_common.ids import ClientId, RunId
from fenchel_common.runconfig import RunConfig
from fenchel_server.announcements import begins_event, ended_event, parties_event, ready_event, round_event
from fenchel_server.attendance import Attendance, Waits
from fenchel_server.federationrun import FederationRun
from fenchel_server.queue import check_roster, enqueue
from fenchel_server.release import Release
from fenchel_server.results import write_model, write_result
from fenchel_server.rounds.counted import CountedTransport
from fenchel_server.rounds.driver import Driver, Watcher
from fenchel_server.rounds.events import AwaitClients, Broke, ClientsPresent, Gather, RoundReady, SetupReady
from fenchel_server.rounds.measured import MeasuredTransport
from fenchel_server.rounds.outcome import certificate_of
from fenchel_server.rounds.transport import Listener, Transport
from fenchel_server.store import RoundRecord, RunRecord, RunStatus, SqliteStore, Store
from fenchel_server.store.base import ENDED

IDLE_LOOK_S = 0.5
"""How often a server without work looks for a queued run."""
STOP_GRACE_S = 5.0
FAREWELL_S = 30.0
"""How long a server without further runs waits for parties to dismiss: two of a client's longest pauses."""

Announce = Callable[[Mapping[str, object]], None]
Around = Callable[[Transport], Transport]

log = logging.getLogger(__name__)


class Listen(Protocol):
    """Opens one kind of listener, through which clients reach the server."""

    def __call__(self, kit: LiveKit, *, address: Address) -> Listener:
        """Listens at an address, and returns when clients can connect.

        Each connection is judged by the kit that is in use when the client connects. Raises `InvalidInput` if the
        server cannot listen at the address, and `WrongRole` if the kit is not a server's. The caller must call `stop`.
        """
        ...


@dataclass(slots=True)
class _Worked:
    """How the runs ended that this process worked on, and which parties' data kept the last one from beginning."""

    statuses: set[RunStatus] = field(default_factory=set)
    unfit: Mapping[str, UnfitData] = field(default_factory=dict)


def serve(
    kit: Kit,
    state: Path,
    *,
    configs: Sequence[RunConfig],
    address: Address,
    listen: Listen,
    stay: bool,
    announce: Announce,
    results: Path | None = None,
    farewell_s: float = FAREWELL_S,
    around: Around = lambda transport: transport,
) -> frozenset[RunStatus]:
    """Works on the runs until none is left, or for ever with `stay`; returns how they ended, and those of `configs`.

    The end of a run of `configs` that has ended already is announced once more. At the end the server dismisses every
    party of the roster; it waits `farewell_s` for parties that are not attached. `results` is a folder for the figures
    of each run that ends. The models that parties release are written there too, or into the state folder if there is
    no such folder. A run uses one roster to its end: the one in the kit's folder when the server begins to work on it.
    `announce` gets the events; two threads may call it, because what the parties do is followed beside the run.
    `around` may put something around the transport of each run, to see its phases.
    """

    for config in configs:
        check_roster(config, kit.roster)
    use_all_cores()

    def tell(event: Mapping[str, object]) -> None:
        if results is not None and event["event"] == "ended":
            ended_run = RunId(str(event["run"]))
            parties = len(kit_in_use.look().roster.parties)
            write_result(results, store.run(ended_run), store.rounds(ended_run), parties=parties)
        announce(event)

    kit_in_use = LiveKit(kit)
    with SqliteStore.serve(state) as store:
        transport = listen(kit_in_use, address=address)
        try:
            # After the server listens: a command that is refused leaves no queued run.
            asked = enqueue(store, configs)
            listed = list(kit.roster.names)
            announce({"event": "listening", "address": str(address), "port": transport.port, "parties": listed})
            for record in asked:
                if record.status in ENDED:
                    tell(ended_event(record))
            attendance = Attendance(transport, lambda: frozenset(kit_in_use.look().roster.names))
            waits = Waits(transport, attendance, announce)
            with attendance.on_record(store, lambda parties: announce(parties_event(parties)), waits.tell_phase):
                models = results or state
                worked = _work(store, kit_in_use, transport, waits, tell, stay=stay, models=models, around=around)
            _dismiss_all(kit_in_use, transport, tell, unfit=worked.unfit, farewell_s=farewell_s)
        finally:
            transport.stop(grace_s=STOP_GRACE_S)
        return frozenset(worked.statuses) | {store.run(record.run).status for record in asked}


def _work(
    store: Store,
    kit: LiveKit,
    transport: Listener,
    waits: Waits,
    announce: Announce,
    *,
    stay: bool,
    models: Path,
    around: Around,
) -> _Worked:
    worked = _Worked()
    idle = threading.Event()
    while True:
        pending = store.pending()
        if pending:
            record = pending[0]
            watch = _watcher(store, record, transport, waits, announce, worked)
            worked.unfit = {}
            announce(begins_event(record, store.last_round(record.run)))
            ended = _drive(store, kit, transport, record, watch, waits, models=models, around=around)
            worked.statuses.add(ended)
            announce(ended_event(store.run(record.run)))
        elif stay:
            idle.wait(IDLE_LOOK_S)
        else:
            return worked


def _dismiss_all(
    kit: LiveKit, transport: Listener, announce: Announce, *, unfit: Mapping[str, UnfitData], farewell_s: float
) -> None:
    parties = frozenset(kit.look().roster.names)
    transport.dismiss("all runs are over", unfit=unfit)
    if late := transport.wait_dismissed(parties, timeout_s=0):
        announce({"event": "leaving", "for": sorted(late), "within_s": farewell_s})
        transport.wait_dismissed(parties, timeout_s=farewell_s)


def _drive(
    store: Store,
    kit: LiveKit,
    transport: Listener,
    record: RunRecord,
    watch: Watcher,
    waits: Waits,
    *,
    models: Path,
    around: Around,
) -> RunStatus:
    config = RunConfig.from_json(record.config)
    try:
        check_roster(config, kit.look().roster)
    except InvalidConfig as error:
        # A submitted run is checked here: `fenchel runs submit` has no kit.
        store.begin_attempt(record.run)
        store.close_run(record.run, RunStatus.FAILED, reason=str(error))
        return RunStatus.FAILED
    parts = FederationRun(config, kit.look().roster, certificate=lambda: certificate_of(store.rounds(record.run)))

    def still_waiting(waiting: AwaitClients, present: frozenset[ClientId]) -> None:
        transport.set_serving(len(present) >= waiting.enough)
        waits.tell(record.run, waiting.clients - present)

    driver = Driver(
        record.run,
        parts,
        store=store,
        transport=around(CountedTransport(MeasuredTransport(transport), config.algorithm_settings())),
        watch=watch,
        still_waiting=still_waiting,
        keep_model=lambda release: _keep_model(models, record.run, release),
    )
    ending = driver.drive()
    transport.set_serving(False)
    waits.tell(record.run, frozenset())
    return ending.status


def _keep_model(directory: Path, run: RunId, release: Release) -> None:
    path = write_model(directory, run, release)
    log.info("run %s: the parties released the model to this server: %s", run, path)


def _watcher(
    store: Store, record: RunRecord, transport: Listener, waits: Waits, announce: Announce, worked: _Worked
) -> Watcher:
    run, gap_target = record.run, RunConfig.from_json(record.config).stop.gap

    def watch(moment: object) -> None:
        match moment:
            case ClientsPresent():
                transport.set_serving(True)
                waits.tell(run, frozenset())
            case Broke(unfit=unfit):
                worked.unfit = unfit
            case Gather(round_id=round_id, phase=phase):
                announce({"event": "phase", "run": run, "round": round_id, "phase": phase})
            case SetupReady(warnings=warnings):
                for warning in warnings:
                    announce({"event": "warning", "run": run, "warning": warning})
                announce(ready_event(store.run(run)))
            case RoundReady(record=RoundRecord() as committed):
                announce(round_event(run, committed, gap_target=gap_target))

    return watch
