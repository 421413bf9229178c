"""The run that a party works on, one at a time, and the guard around tasks in which vectors are opened.

If a task fails after a vector in it was opened, the server is told the same words whatever the reason, because the
reason could depend on the opened values. Each such refusal counts towards the lock of the run.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.activerun import ActiveRun
from fenchel_client.algorithms.base import MayDiverge
from fenchel_client.consent import Consent
from fenchel_client.coverage import check_coverage, client_layout_of
from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.firstresults import LearntMoments, with_lengths
from fenchel_client.layoutnotes import layout_notes
from fenchel_client.partymodel import party_model
from fenchel_client.release import reason_not_to_release, released_weights
from fenchel_client.runrecords import MAX_REFUSALS, NO_KEY, RunRecords, with_company
from fenchel_client.runtable import run_table, run_vocabulary
from fenchel_client.table import PartyTable
from fenchel_client.task import Cluster, Task
from fenchel_common.clientlayout import ClientLayout
from fenchel_common.errors import FenchelError, InvalidInput, Refusal, RunLocked, ValueNotFinite, ValueOutOfRange
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.records import first_view
from fenchel_common.setup import NOT_USABLE, Company, ModelPart, PartyRun
from fenchel_common.wire.setup import model_part_from_bytes, model_release_to_bytes

OUTGROWN: Final = "its values outgrow the encrypted vectors; columns of a smaller scale, or a larger lambda, would fit"

T = TypeVar("T")

log = logging.getLogger(__name__)


class CurrentRun:
    """Makes runs active from their records, and lets their algorithms answer tasks.

    Attributes
    ----------
    active
        The run at work; None before the first one, and after one that ended, was locked or lost its key.
    """

    def __init__(
        self,
        table: PartyTable,
        records: RunRecords,
        *,
        stopwatch: Stopwatch,
        consent: Consent,
        cluster: Cluster | None = None,
    ) -> None:
        self.active: ActiveRun | None = None
        self._table = table
        self._records = records
        self._stopwatch = stopwatch
        self._consent = consent
        self._cluster = cluster

    def begin(
        self,
        run: RunId,
        due: PartyRun,
        *,
        introductions: bytes,
        table: PartyTable,
        check: Callable[[ClientLayout], None],
        kit: Kit,
        attempt: int,
    ) -> ActiveRun:
        """Makes a run active whose set-up has reached its layout, and stores its record for a restart.

        `due` has no view yet; it follows from the layout and from `introductions`, the digest of the introductions.
        `table` is that of the run. `check` raises `InvalidInput` for a layout that the party knows to be wrong.
        """
        layout = self._checked_layout(due, table, check, kit)
        view = first_view(
            terms=due.config.digest(),
            roster_fingerprint=kit.roster.fingerprint(),
            introductions=introductions,
            layout_root=layout.root,
        )
        kept = self._records.with_layout(run, replace(due, view=view))
        active = self._activated(run, kept, layout, table, kit, attempt=attempt)
        self._records.keep_layout(run, kept)
        for note in layout_notes(layout):
            log.info("run %s: %s", run, note)
        self.active = active
        return active

    def running(self, run: RunId, *, kit: Kit) -> ActiveRun:
        """The active run, made from its record if it is not active yet; `Refusal` without a record."""
        if self.active is None or self.active.run != run:
            kept = self._records.kept(run)
            if kept is None:
                raise Refusal(f"there is no key of run {run} in this party's state folder", public_reason=NO_KEY)
            if kept.config.prepares and not kept.labels:
                raise Refusal(
                    f"this process started before the features and labels of run {run} were prepared",
                    public_reason="it restarted during the set-up",
                )
            layout = client_layout_of(kept, self._table, party=kit.client_id)
            self.active = self._activated(run, kept, layout, run_table(self._table, kept.config, kept.vocabulary), kit)
        return self.active

    def prepare(self, active: ActiveRun, learn: Callable[[], LearntMoments]) -> ActiveRun:
        """Makes the run one of prepared features and labels; `learn` opens their moments."""

        def recorded() -> PartyRun:
            flags = run_vocabulary(active.table, active.kept.vocabulary).flags()
            return learn().recorded(active.kept, active.settings.label_rules, active.table, flags=flags)

        return self._prepared(active, recorded)

    def _prepared(self, active: ActiveRun, recorded: Callable[[], PartyRun]) -> ActiveRun:
        """The run with the record that `recorded` gives, which is kept on disk."""
        prepared = self.guarded(active, lambda: active.prepared(recorded(), self._stopwatch))
        self._records.folder.keep_run(active.run, prepared.kept)
        self.active = prepared
        return prepared

    def divide_rows(self, active: ActiveRun, whole: Callable[[], NDArray[np.float64]]) -> ActiveRun:
        """Makes the run one of rows of length 1; `whole` opens the lengths of the rows with prepared features."""
        return self._prepared(active, lambda: with_lengths(active.kept, whole(), features=len(active.table.features)))

    def answer(self, active: ActiveRun, task: Task) -> bytes:
        """The result of a task of a round; that the party has come so far is on disk before the result leaves.

        `Refusal` for a task of an earlier round or attempt than the party has answered, also before a restart, and for
        one that asks for the same contribution in too many companies.
        """
        kept = active.kept
        if task.attempt < kept.attempt or task.round < kept.round:
            raise Refusal(
                f"this party has come to round {kept.round} in attempt {kept.attempt}, and the server goes back to "
                f"round {task.round} in attempt {task.attempt}",
                public_reason="it has come further in this run",
            )
        scoring = self._consent.scoring
        limits = None if scoring is None else scoring.limits
        self._records.admit_rows(active.settings, active.layout, active.table, limits)
        admitted = kept

        def admit(company: Company) -> None:
            nonlocal admitted
            if active.key.masked:
                admitted = with_company(kept, company)

        result = self.guarded(active, lambda: active.participant.answer(task.moment, task.body, admit=admit))
        if self.active is not None:
            self._mark(self.active, task, admitted)
        return result

    def guarded(self, active: ActiveRun, work: Callable[[], T]) -> T:
        """The result of `work`.

        Every failure after a vector was opened becomes a `Refusal` with the same public reason, which counts towards
        the lock of the run.
        """
        opened_before = self._stopwatch.opened
        try:
            result = work()
        except Exception as error:
            # Algorithms remember values that earlier tasks opened, so such an error can depend on them.
            of_values = isinstance(error, ValueOutOfRange | ValueNotFinite) or not isinstance(error, FenchelError)
            since = active.opened_before if of_values else opened_before
            if self._stopwatch.opened > since:
                raise self._not_usable(active, error) from error
            if isinstance(error, ValueOutOfRange):
                raise Refusal(str(error), public_reason=OUTGROWN) from error
            raise
        algorithm = active.participant.algorithm
        if isinstance(algorithm, MayDiverge) and algorithm.diverged:
            self._count_refusal(active)
        try:
            active.check_rows()
        except Refusal as error:
            # The length of a row that other parties hold too was opened, now or earlier.
            raise self._not_usable(active, error) if active.layout.shared.any() else error from error
        return result

    def keep_model(self, active: ActiveRun, body: bytes) -> bytes:
        """Stores this party's part of the model on disk; returns the release for the server, empty if there is none."""
        part = model_part_from_bytes(body)
        weights = self.guarded(active, lambda: active.participant.final_model(part.state))
        if not active.kept.config.trains:
            if len(weights):
                ids = [active.table.ids[row] for row in active.layout.rows]
                self._records.folder.keep_scores(active.run, ids, weights.tolist())
            return b""
        release = _release(active, part, weights)
        self._records.folder.keep_model(active.run, party_model(active, part, weights, self._table))
        return release

    def _mark(self, active: ActiveRun, task: Task, admitted: PartyRun) -> None:
        """Stores how far the party has come, and in which companies; nothing if both are on disk already."""
        kept = replace(active.kept, companies=admitted.companies, changes_of_company=admitted.changes_of_company)
        if (task.attempt, task.round) != (kept.attempt, kept.round):
            before = active.participant.transcript.view_before_round
            kept = replace(kept, attempt=task.attempt, round=task.round, view_before=before)
        if kept != active.kept:
            self._records.folder.keep_run(active.run, kept)
            self.active = replace(active, kept=kept)

    def _checked_layout(
        self, kept: PartyRun, table: PartyTable, check: Callable[[ClientLayout], None], kit: Kit
    ) -> ClientLayout:
        """The layout in the record; `Refusal` if it does not cover the party's data as it must."""
        try:
            layout = client_layout_of(kept, table, party=kit.client_id)
            check_coverage(layout, table=table, config=kept.config, roster=kit.roster)
            check(layout)
        except InvalidInput as error:
            raise Refusal(str(error), public_reason=f"it refused its layout: {error}") from error
        return layout

    def _activated(
        self, run: RunId, kept: PartyRun, layout: ClientLayout, table: PartyTable, kit: Kit, *, attempt: int = 0
    ) -> ActiveRun:
        self._consent.check(kept.config)
        return ActiveRun.of(
            run,
            kept,
            layout,
            table=table,
            releases=kit.roster.release_model_to_server,
            stopwatch=self._stopwatch,
            attempt=attempt,
            cluster=self._cluster,
        )

    def _not_usable(self, active: ActiveRun, error: Exception) -> Refusal:
        refusals = self._count_refusal(active)
        if not isinstance(error, FenchelError):
            log.error("a task of run %s failed after a vector in it was opened", active.run, exc_info=error)
        said = f"{error}; {OUTGROWN}" if isinstance(error, ValueOutOfRange) else str(error) or type(error).__name__
        kind = RunLocked if refusals >= MAX_REFUSALS else Refusal
        return kind(f"{said} (refusal {refusals}; at {MAX_REFUSALS} the run is locked here)", public_reason=NOT_USABLE)

    def _count_refusal(self, active: ActiveRun) -> int:
        kept = self._records.refused(active.run, active.kept)
        self.active = None if kept.secrets is None else replace(active, kept=kept)
        return kept.refusals


def _release(active: ActiveRun, part: ModelPart, weights: NDArray[np.float64]) -> bytes:
    """The release of the model for the server: empty, unless this party's own roster and records say otherwise."""
    if not active.releases:
        return b""
    if active.participant.transcript.round < active.kept.round:
        log.warning("run %s: the server does not get the model: its records are older than this party's", active.run)
        return b""
    if reason := reason_not_to_release(active.participant, active.settings.stop):
        log.warning("run %s: the server does not get the model: %s", active.run, reason)
        return b""
    gap = active.participant.certified_gap()
    if gap is not None and part.gap is not None:
        # The server adds a bound on rounding errors, which needs the whole layout.
        gap = max(gap, part.gap)
    given = released_weights(weights, gap=gap, layout=active.layout, noise=active.noise)
    exact = "exact" if active.noise is None else f"with noise of standard deviation {active.noise.sigma:.3g}"
    log.info("run %s: %d weights go to the server, %s, as the roster says", active.run, given.size, exact)
    return model_release_to_bytes(given)
