"""The records that a party keeps of its runs in its state folder, with counters that limit what a server can ask for.

A run has one layout for each key. The number of a party's unfinished runs is bounded, and so is the number of set-ups
of a run. After a few refusals of tasks in which a vector was opened, the run is locked at this party for ever. From
one state of the model a party contributes in two companies at most (`companies`), and in a second one few times.
"""

from dataclasses import replace
from typing import Final

from fenchel_client.askedrows import AskedRows, ScoringLimits
from fenchel_client.ledger import PartyLedger
from fenchel_client.setup import SetupClient
from fenchel_client.setupmemory import RESTARTED, setup_record, take_up_setup
from fenchel_client.statefolder import StateFolder
from fenchel_client.table import PartyTable
from fenchel_client.task import Task
from fenchel_common.algorithms.scoring.settings import ScoringSettings
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import InvalidInput, KeyFileError, Refusal, RunLocked
from fenchel_common.ids import ClientId, RunId
from fenchel_common.setup import FIRST_STATE, Company, PartyRun
from fenchel_common.wire.pieces import is_blinding_phase

MAX_REFUSALS: Final = 3
"""After so many refusals of tasks in which a vector was opened a run is locked; an honest server causes fewer."""
MAX_SETUPS_OF_A_RUN: Final = 32
"""The most set-ups of a run that reach the layout; a party that drops out in the last phase causes another one."""
MAX_SETUPS_WITHOUT_A_LAYOUT: Final = 64
"""The most set-ups in a row, of any runs, that end before the layout. In each of them the key holder may make a key."""
MAX_UNFINISHED_RUNS: Final = 128
"""The most unfinished runs of which a party keeps files."""

NO_KEY: Final = "it does not have the key of this run"
LOCKED: Final = "it takes no further part in this run; its own log says why"

MAX_COMPANIES_OF_A_STATE: Final = 2
"""The most companies in which a party contributes from one state of the model."""
MAX_CHANGES_OF_COMPANY: Final = 3
"""The most times in a run that a party contributes from the same state in a second company."""
OTHER_COMPANY: Final = (
    "it has contributed from this state of the model in another company already, and goes on in the same company alone"
)


class RunRecords:
    """The records of one party's runs on disk, and their counters."""

    def __init__(self, folder: StateFolder, *, party: ClientId) -> None:
        self.folder = folder
        self._party = party
        self._setups_without_a_layout = 0
        self._ledger: PartyLedger | None = None

    def admit_rows(
        self, settings: AlgorithmSettings, layout: ClientLayout, table: PartyTable, limits: ScoringLimits | None
    ) -> None:
        """In a scoring run, records the rows that another party asks for; `Refusal` as `AskedRows.admit` says.

        `limits` are those of the party's operator; None at a party that trains, which refuses scoring runs.
        """
        if not isinstance(settings, ScoringSettings) or self._party == settings.asker or not len(layout.rows):
            return
        assert limits is not None, "a party that has not agreed to scoring refuses the run"
        ids = [table.ids[row] for row in layout.rows]
        AskedRows(self.folder.path).admit(settings.model, ids, fewest=settings.minimum, limits=limits)

    def kept(self, run: RunId) -> PartyRun | None:
        """The record of a run that is not over; None if there is none.

        `RunLocked` if the run is locked, another `Refusal` if its file is damaged or others can read it.
        """
        try:
            kept = self.folder.run(run)
        except (KeyFileError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=NO_KEY) from error
        if kept is not None and kept.refusals >= MAX_REFUSALS:
            raise RunLocked(
                f"run {run} is locked here: {kept.refusals} tasks had values that no honest run has; once people whom "
                "all parties trust have found out why, they can start a new run",
                public_reason=LOCKED,
            )
        return kept

    def begin_setup(self, run: RunId) -> None:
        """Counts a set-up; `Refusal` if the run is over or locked here, or if there were too many set-ups."""
        kept = self.kept(run)
        if kept is None and self.folder.model_path(run).exists():
            raise Refusal(f"run {run} is over, and its model is here", public_reason="the run is over at this party")
        if kept is not None and kept.setups >= MAX_SETUPS_OF_A_RUN:
            raise Refusal(
                f"run {run} was set up {kept.setups} times and never finished; start it under a new name",
                public_reason="this run was set up too often",
            )
        if self._setups_without_a_layout >= MAX_SETUPS_WITHOUT_A_LAYOUT:
            raise Refusal(
                f"{MAX_SETUPS_WITHOUT_A_LAYOUT} set-ups in a row ended before the layout; find out why, and restart "
                "the client",
                public_reason="too many set-ups came to nothing",
            )
        self._setups_without_a_layout += 1

    def keep_setup(self, setup: SetupClient, task: Task) -> None:
        """Stores how far a set-up has come, before the answer to a task leaves the party.

        The key with which the party introduces itself is never stored: nothing is, until the party has the secrets.
        """
        if setup.secrets is not None and not is_blinding_phase(task.phase):
            self.folder.keep_setup(setup_record(setup, attempt=task.attempt))

    def take_up(self, setup: SetupClient, task: Task) -> None:
        """Goes on with a set-up that another process of this party began; `Refusal` as `take_up_setup` says."""
        try:
            kept = self.folder.setup()
        except (KeyFileError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=RESTARTED) from error
        if kept is not None and (kept.run, kept.attempt) == (task.run, task.attempt):
            take_up_setup(setup, kept)

    def with_layout(self, run: RunId, due: PartyRun) -> PartyRun:
        """The record of the run from its layout on; `Refusal` for a second layout under one key."""
        kept = self.kept(run)
        if kept is None:
            if self.folder.unfinished_runs() >= MAX_UNFINISHED_RUNS:
                raise Refusal(
                    f"{MAX_UNFINISHED_RUNS} runs are unfinished here; delete the .run files of those that "
                    "will not be finished",
                    public_reason="it has too many unfinished runs",
                )
            return due
        if kept.key_digest != due.key_digest:
            return replace(
                due,
                setups=kept.setups + 1,
                refusals=kept.refusals,
                companies=kept.companies,
                changes_of_company=kept.changes_of_company,
            )
        if kept.secrets is None:
            raise Refusal(
                "this party has deleted the key of this set-up, and the server sends it again",
                public_reason="it has given this key up",
            )
        if kept.layout != due.layout or kept.config != due.config:
            raise Refusal(
                "the server gives a second layout for a key that has one: with two layouts it could read single rows",
                public_reason="it has another layout for this key",
            )
        return kept

    def keep_layout(self, run: RunId, kept: PartyRun) -> None:
        """Stores the record of a set-up that has reached its layout."""
        self.folder.keep_run(run, kept)
        self.folder.end_setup()
        self._setups_without_a_layout = 0

    def refused(self, run: RunId, kept: PartyRun) -> PartyRun:
        """The record with one refusal more, stored before the server learns of it. A locked run loses its key."""
        counted = replace(kept, refusals=kept.refusals + 1)
        if counted.refusals >= MAX_REFUSALS:
            counted = replace(counted, secrets=None)
        self.folder.keep_run(run, counted)
        return counted

    def ledger(self, run: RunId) -> PartyLedger:
        """The ledger of a run. If the last call was for another run, counts of that run that are not saved are lost."""
        if self._ledger is None or self._ledger.run != run:
            self._ledger = self.folder.ledger(run, party=self._party)
        return self._ledger

    def save_ledger(self, run: RunId) -> None:
        """Saves the ledger of a run, if it is the run whose tasks are counted now."""
        if self._ledger is not None and self._ledger.run == run:
            self._ledger.save()


def with_company(kept: PartyRun, company: Company) -> PartyRun:
    """The record of a run in which the party contributes in this company; `Refusal` if its bounds do not allow it.

    Companies of the first state are kept for good, because a new set-up of the run begins with that state again. A
    server cannot go back to any other state once the party has contributed from a later one.
    """
    known = tuple(one for one in kept.companies if one.state in (FIRST_STATE, company.state))
    if company in known:
        return replace(kept, companies=known)
    earlier = sum(one.state == company.state for one in known)
    if earlier >= MAX_COMPANIES_OF_A_STATE or (earlier and kept.changes_of_company >= MAX_CHANGES_OF_COMPANY):
        raise Refusal(
            "the server asks for the same contribution again, to be added to those of other parties or with other "
            "weights; the difference of such sums shows one party's part. This happened "
            f"{kept.changes_of_company} times in this run, and this party allows it {MAX_CHANGES_OF_COMPANY} times, "
            "and once for each state of the model. The run goes on when the parties are back that took part before",
            public_reason=OTHER_COMPANY,
        )
    changes = kept.changes_of_company + bool(earlier)
    return replace(kept, companies=(*known, company), changes_of_company=changes)
