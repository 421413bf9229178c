"""A real federation from Python: at the server runs are submitted and followed, at a party its run and its model."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Kit
from fenchel_common.model import Model, read_model
from fenchel_common.model.folder import SUFFIX
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.runstatus import shown_reason, shown_status
from fenchel_deploy.standing import NOW_FILE, is_at_work, read_standing
from fenchel_deploy.watching import run_events
from fenchel_server.queue import check_roster, submit
from fenchel_server.rounds.outcome import RunOutcome
from fenchel_server.store import SqliteStore
from fenchel_server.store.base import ENDED
from fenchel_server.store.statedir import DATABASE_NAME, is_served

LOOK_S: Final = 0.5
"""How often a party's folder is looked at; its client writes once a second."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a run, as far as whoever follows it knows: at a party only its number and the gap."""

    number: int
    gap: float | None
    primal: float | None = None
    dual: float | None = None
    accuracy: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    Attributes
    ----------
    status
        "completed", "exhausted", "diverged", "failed" or "stopped", as docs/commands.md explains them.
    outcome
        Rounds, certificate and costs, as `fenchel runs show --format json` has them; None if it ended without a model.
    """

    status: str
    reason: str
    outcome: Mapping[str, Any] | None


class Run:
    """A run in the state folder of a server."""

    def __init__(self, state: Path, run: str) -> None:
        self._state = state
        self.id = run

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def status(self) -> str:
        """The status as `fenchel runs list` shows it."""
        with SqliteStore.inspect(self._state) as store:
            return shown_status(store.find(self.id), served=is_served(self._state))

    @property
    def reason(self) -> str:
        """Why it has this status; of a run under way, whom it waits for."""
        with SqliteStore.inspect(self._state) as store:
            found, parties, queue = store.find(self.id), store.parties(), store.queued()
        return shown_reason(found, parties, served=is_served(self._state), queue=queue)

    def rounds(self) -> Iterator[Round]:
        """The committed rounds from the first one on, each as soon as it is committed, until the run has ended."""
        events: Iterator[Mapping[str, Any]] = run_events(self._state, self.id)
        for event in events:
            if event["event"] == "round":
                known = ("gap", "primal", "dual", "accuracy", "seconds")
                yield Round(event["round"], **{name: event[name] for name in known})

    def result(self) -> Result:
        """Waits until the run has ended."""
        for _ in self.rounds():
            pass
        with SqliteStore.inspect(self._state) as store:
            found = store.find(self.id)
        outcome = None if found.outcome is None else RunOutcome.from_json(found.outcome).to_mapping()
        return Result(str(found.status), found.reason, outcome)

    def stop(self, reason: str = "stopped from Python") -> None:
        """Stops the run after its present phase, or at once if it is queued."""
        with SqliteStore.operate(self._state) as store:
            store.request_stop(store.find(self.id).run, reason=reason)

    @property
    def ended(self) -> bool:
        with SqliteStore.inspect(self._state) as store:
            return store.find(self.id).status in ENDED


class Federation:
    """One side of a federation: that of the server, or that of a party, by the state folder that is given.

    It reads and writes the folder beside the process of `fenchel server` or `fenchel client`, which it neither starts
    nor ends; it holds nothing open.

    Parameters
    ----------
    state
        The folder that the process was given as `--state`.
    kit
        The server's kit, so that what its roster rules out is refused at once; or the party's, which must be the one
        that its client uses.
    """

    def __init__(self, state: str | Path, *, kit: str | Path | None = None) -> None:
        self._state = Path(state)
        self._kit = None if kit is None else Kit.load(Path(kit))
        self.at_server = (self._state / DATABASE_NAME).exists()
        if not self.at_server and not (self._state / NOW_FILE).exists():
            raise InvalidInput(
                f"{self._state}: neither a server nor a client has worked with this folder; give what 'fenchel server' "
                "or 'fenchel client' got as --state, once it has started"
            )
        if self._kit is not None and (self._kit.name in self._kit.roster.names) == self.at_server:
            side = "a server" if self.at_server else "a party"
            raise InvalidInput(f"{self._state} is the folder of {side}, and the kit is that of {self._kit.name}")

    def submit(self, run: str | Path | Mapping[str, Any]) -> Run:
        """Puts a run into the queue of a server that stays: a run's file, or its content.

        `InvalidConfig` says what is wrong with it, `RecordConflict` that its name is taken.
        """
        self._check_side(server=True)
        config = RunConfig.from_mapping(run) if isinstance(run, Mapping) else RunConfig.from_toml(Path(run))
        if self._kit is not None:
            check_roster(config, self._kit.roster)
        with SqliteStore.operate(self._state) as store:
            return Run(self._state, submit(store, config).run)

    def runs(self) -> list[Run]:
        """All runs on record at the server, the oldest first."""
        self._check_side(server=True)
        with SqliteStore.inspect(self._state) as store:
            return [Run(self._state, record.run) for record in store.runs()]

    def run(self, name: str) -> Run:
        """The run with this name or id; `UnknownRun` without one."""
        self._check_side(server=True)
        with SqliteStore.inspect(self._state) as store:
            return Run(self._state, store.find(name).run)

    def rounds(self) -> Iterator[Round]:
        """The rounds whose gap this party has come to know in the run that it works on, until that is over here.

        Ends too if the client has ended, or has given no sign of life for a minute.
        """
        self._check_side(server=False)
        pause, told = threading.Event(), 0
        run = (read_standing(self._state) or {}).get("run")
        while run is not None:
            over = (self._state / f"{run}{SUFFIX}").exists()
            now = read_standing(self._state) or {}
            if now.get("run") != run:
                return
            for number, gap in now["gaps"][told:]:
                yield Round(int(number), float(gap))
            told = len(now["gaps"])
            if over or not is_at_work(now):
                return
            pause.wait(LOOK_S)

    def models(self) -> dict[str, Model]:
        """This party's parts of models by the id of the run, the oldest first."""
        self._check_side(server=False)
        folders = sorted(self._state.glob(f"*{SUFFIX}"), key=lambda folder: folder.stat().st_mtime)
        return {folder.name.removesuffix(SUFFIX): read_model(folder) for folder in folders}

    def model(self, run: str | None = None) -> Model:
        """This party's part of the model of a run by id or name, the newest without one."""
        named = {word: model for key, model in self.models().items() for word in (key, model.record.name)}
        if not named or (run is not None and run not in named):
            raise InvalidInput(f"{self._state}: there is no model{'' if run is None else f' of run {run!r}'} yet")
        return named[run] if run is not None else list(named.values())[-1]

    def _check_side(self, *, server: bool) -> None:
        if server != self.at_server:
            side = "a server" if self.at_server else "a party"
            raise InvalidInput(f"{self._state} is the folder of {side}, which does not have this")
