"""A party at work: answers every task of a run from its own data, key and state.

What the server can make a party do is bounded here. A run has one layout for each key. A party takes part in the set-up
of few runs at a time, and of one run only so often. A task that is refused after something in it was opened is refused
in the same words whatever the reason, because the reason could tell of the value; after a few such refusals the run is
locked at this party, for good.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fenchel_client.activerun import ActiveRun, client_layout_of
from fenchel_client.algorithms.base import MayDiverge
from fenchel_client.alignment import arrange
from fenchel_client.coverage import check_coverage
from fenchel_client.crypto.timed import Stopwatch
from fenchel_client.labels import LabelComparison
from fenchel_client.ledger import PartyLedger
from fenchel_client.memory import peak_memory_bytes
from fenchel_client.release import released_weights
from fenchel_client.setup import Consent, SetupClient
from fenchel_client.statefolder import StateFolder
from fenchel_client.task import Task
from fenchel_client.tasklimits import NO_KEY, before_layout, run_task_limit, setup_task_limit
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.data.shard import Shard
from fenchel_common.errors import FenchelError, InvalidInput, KeyFileError, Refusal, ValueNotFinite, ValueOutOfRange
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.ids import RunId
from fenchel_common.leakage import Direction
from fenchel_common.setup import (
    FINISH,
    INTRODUCE,
    LABELS,
    LAYOUT,
    NOT_USABLE,
    LayoutResult,
    ModelPart,
    PartyRun,
)
from fenchel_common.wire.catalogue import FIRST_ALIGNMENT
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.labels import labels_compared_to_bytes, layout_result_to_bytes
from fenchel_common.wire.setup import model_part_from_bytes, model_release_to_bytes, phase_result_to_bytes

MAX_REFUSALS: Final = 3
"""After so many tasks refused on what was opened, a run is locked: no honest server comes near it."""
MAX_SETUPS_OF_A_RUN: Final = 32
"""How often a run's set-up may come to its layout; a party that drops out at the last phase makes it begin anew."""
MAX_SETUPS_WITHOUT_A_LAYOUT: Final = 64
"""How many set-ups in a row, of any runs, may come to nothing. Each can make a key holder make a key."""
MAX_UNFINISHED_RUNS: Final = 128
"""How many runs that are not over a party keeps files of."""

OUTGROWN: Final = "its values outgrow the encrypted vectors; columns of a smaller scale, or a larger lambda, would fit"
LOCKED: Final = "it takes no further part in this run; its own log says why"

T = TypeVar("T")

log = logging.getLogger(__name__)


class Party:
    """One organisation's side of a federation."""

    def __init__(self, kit: Kit | LiveKit, shard: Shard, *, state: Path, consent: Consent | None = None) -> None:
        self._live_kit = LiveKit.of(kit)
        self._kit = self._live_kit.look()
        self._shard = arrange(shard)
        self._state = StateFolder(state)
        self._consent = consent or Consent()
        self._releases = self._kit.roster.release_model_to_server
        self._stopwatch = Stopwatch()
        self._setup: SetupClient | None = None
        self._setups_without_a_layout = 0
        self._active: ActiveRun | None = None
        self._ledger: PartyLedger | None = None

    def handle(self, task: Task) -> bytes:
        """The result of a task, with what was spent on it; every time is rounded for itself, the remainder too."""
        before, began = replace(self._stopwatch), time.perf_counter()
        body = self._counted_answer(task)
        spent = self._stopwatch.spent_since(before, total_s=time.perf_counter() - began)
        return phase_result_to_bytes(body, replace(spent, peak_memory_bytes=peak_memory_bytes()))

    def idle(self) -> AbstractContextManager[object]:
        """While it lasts, nonces for later are made; what was counted is on file when it begins."""
        if self._active is None:
            return nullcontext()
        if self._ledger is not None and self._ledger.run == self._active.run:
            self._ledger.save()
        pool = self._active.pool
        return nullcontext() if pool is None else pool.idle()

    def task_limit(self, key: TaskKey) -> int:
        """The most bytes of a task; `Refusal` if this party knows nothing of the run.

        May be asked while another thread works on a task, so nothing is made active here.
        """
        if before_layout(key):
            config = None if self._setup is None else self._setup.config
            return setup_task_limit(key, config, shard=self._shard, parties=len(self._kit.roster.parties))
        active = self._active
        kept = active.kept if active is not None and active.run == key.run else self._kept(key.run)
        return run_task_limit(key, kept, shard=self._shard)

    def _counted_answer(self, task: Task) -> bytes:
        """Answers, and puts on record what is in the task and in the result."""
        settings = self._settings_of(task)
        if settings is None and (task.round > 0 or task.phase in (LAYOUT, LABELS)):
            # This process does not know the run, and cannot read the task; the answer says so.
            return self._answer(task)
        if self._ledger is None or self._ledger.run != task.run:
            self._ledger = self._state.ledger(task.run, party=self._kit.client_id)
        ledger = self._ledger
        with self._stopwatch.serialising():
            ledger.count(Direction.DOWN, task.phase, task.body, settings)
        body = self._answer(task)
        with self._stopwatch.serialising():
            ledger.count(Direction.UP, task.phase, body, settings)
        if task.phase == FINISH:
            ledger.save()
        return body

    def _settings_of(self, task: Task) -> AlgorithmSettings | None:
        if task.round > 0:
            try:
                return self._running(task.run).settings
            except Refusal:
                return None
        setup = self._setup
        if setup is None or setup.run != task.run or setup.config is None:
            return None
        return setup.config.algorithm_settings()

    def _answer(self, task: Task) -> bytes:
        if task.round > 0:
            if task.phase == FINISH:
                return self._finish(task)
            active = self._running(task.run)
            return self._guarded(active, lambda: active.algorithm.answer(task.phase, task.body))
        if task.phase == INTRODUCE:
            self._check_setup_allowed(task.run)
        if task.phase == INTRODUCE or self._setup is None or self._setup.run != task.run:
            # The roster of a set-up is one and the same to its end; the next set-up takes up a newer one.
            self._kit = self._live_kit.look()
            self._setup = SetupClient(self._kit, self._shard, task.run, self._consent)
        if task.phase == LAYOUT:
            return self._begin(self._setup, task.body)
        if task.phase == LABELS:
            return self._compare_labels(self._setup, task.body)
        answered = self._setup.answer(task.phase, task.body)
        if task.phase == FIRST_ALIGNMENT:
            self._state.keep_features(task.run, self._setup.features_by_pseudonym())
        return answered

    def _check_setup_allowed(self, run: RunId) -> None:
        """Refuses the set-up of a run that is over or locked here, and set-ups without end."""
        kept = self._kept(run)
        if kept is None and self._state.model_path(run).exists():
            raise Refusal(f"run {run} is over, and its model is here", public_reason="the run is over at this party")
        if kept is not None and kept.setups >= MAX_SETUPS_OF_A_RUN:
            raise Refusal(
                f"run {run} was set up {kept.setups} times without ever coming to its end; start it under a new name",
                public_reason="this run was set up too often",
            )
        if self._setups_without_a_layout >= MAX_SETUPS_WITHOUT_A_LAYOUT:
            raise Refusal(
                f"{MAX_SETUPS_WITHOUT_A_LAYOUT} set-ups in a row came to nothing; find out why and restart the client",
                public_reason="too many set-ups came to nothing",
            )
        self._setups_without_a_layout += 1

    def _begin(self, setup: SetupClient, layout: bytes) -> bytes:
        """Keeps what a restart needs; gives the algorithm's opening and the marks of labels that others hold too."""
        if setup.config is None or setup.secrets is None:
            raise Refusal("the layout came before the key", public_reason="it restarted during the set-up")
        due = PartyRun(setup.config, setup.secrets, setup.secrets.digest(), layout)
        kept = self._with_layout(setup.run, due)
        self._check_layout(kept)
        active = self._activate(setup.run, kept)
        self._state.keep_run(setup.run, kept)
        self._active = active
        self._setups_without_a_layout = 0
        if setup.labels is None:
            setup.labels = LabelComparison(
                active.layout,
                self._shard,
                cipher=active.cipher,
                key=active.key,
                secret=setup.secrets.alignment_secret,
                run=setup.run,
            )
        result = LayoutResult(self._guarded(active, active.algorithm.opening), setup.labels.marks())
        with self._stopwatch.serialising():
            return layout_result_to_bytes(result)

    def _compare_labels(self, setup: SetupClient, sums: bytes) -> bytes:
        """Whether labels differ. No step on such labels means anything, so the key is forgotten where they do."""
        if setup.labels is None:
            raise Refusal("the sums of labels came before the layout", public_reason="it restarted during the set-up")
        differ = setup.labels.differs(sums)
        kept = self._kept(setup.run)
        if differ and kept is not None:
            self._state.keep_run(setup.run, replace(kept, secrets=None))
            self._active = None
        return labels_compared_to_bytes(differ=differ)

    def _with_layout(self, run: RunId, due: PartyRun) -> PartyRun:
        """What is to be kept of the run from now on; refuses a second layout under one key."""
        kept = self._kept(run)
        if kept is None:
            if self._state.unfinished_runs() >= MAX_UNFINISHED_RUNS:
                raise Refusal(
                    f"{MAX_UNFINISHED_RUNS} runs are unfinished here; delete the .run files of those that are given up",
                    public_reason="it has too many unfinished runs",
                )
            return due
        if kept.key_digest != due.key_digest:
            return replace(due, setups=kept.setups + 1, refusals=kept.refusals)
        if kept.secrets is None:
            raise Refusal(
                "this party has given the key of this set-up up, and the server hands it over again",
                public_reason="it has given this key up",
            )
        if kept.layout != due.layout or kept.config != due.config:
            raise Refusal(
                "the server gives a second layout for a key that has one: it could read single rows in this way",
                public_reason="it has another layout for this key",
            )
        return kept

    def _check_layout(self, kept: PartyRun) -> None:
        try:
            check_coverage(
                client_layout_of(kept, self._shard),
                shard=self._shard,
                config=kept.config,
                roster=self._kit.roster,
                name=self._kit.client_id,
            )
        except InvalidInput as error:
            raise Refusal(str(error), public_reason=f"it refused its layout: {error}") from error

    def _kept(self, run: RunId) -> PartyRun | None:
        """What is on file of a run; refuses if it is locked, or if the file is damaged or others can read it."""
        try:
            kept = self._state.run(run)
        except (KeyFileError, InvalidInput) as error:
            raise Refusal(str(error), public_reason=NO_KEY) from error
        if kept is not None and kept.refusals >= MAX_REFUSALS:
            raise Refusal(
                f"run {run} is locked here: {kept.refusals} tasks held what no honest run can hold; once people whom "
                "all parties trust have found out why, they can start a new run",
                public_reason=LOCKED,
            )
        return kept

    def _running(self, run: RunId) -> ActiveRun:
        if self._active is None or self._active.run != run:
            kept = self._kept(run)
            if kept is None:
                raise Refusal(f"there is no key of run {run} in this party's state folder", public_reason=NO_KEY)
            self._active = self._activate(run, kept)
        return self._active

    def _activate(self, run: RunId, kept: PartyRun) -> ActiveRun:
        self._consent.check(kept.config)
        self._releases = self._kit.roster.release_model_to_server
        return ActiveRun.of(run, kept, shard=self._shard, releases=self._releases, stopwatch=self._stopwatch)

    def _guarded(self, active: ActiveRun, work: Callable[[], T]) -> T:
        """The result. Whatever fails after something was opened fails in one way, and counts towards the lock."""
        opened_before = self._stopwatch.opened
        try:
            result = work()
        except Exception as error:
            # What earlier tasks opened is remembered, and values made of it may outgrow the vectors only now.
            of_values = isinstance(error, ValueOutOfRange | ValueNotFinite) or not isinstance(error, FenchelError)
            since = active.opened_before if of_values else opened_before
            if self._stopwatch.opened > since:
                raise self._not_usable(active, error) from error
            if isinstance(error, ValueOutOfRange):
                raise Refusal(str(error), public_reason=OUTGROWN) from error
            raise
        if isinstance(active.algorithm, MayDiverge) and active.algorithm.diverged:
            self._count_refusal(active)
        try:
            active.check_rows()
        except Refusal as error:
            # The length of a row that others share was opened, now or earlier.
            raise self._not_usable(active, error) if active.layout.shared.any() else error from error
        return result

    def _not_usable(self, active: ActiveRun, error: Exception) -> Refusal:
        refusals = self._count_refusal(active)
        if not isinstance(error, FenchelError):
            log.error("a task of run %s failed after something in it was opened", active.run, exc_info=error)
        said = f"{error}; {OUTGROWN}" if isinstance(error, ValueOutOfRange) else str(error) or type(error).__name__
        return Refusal(
            f"{said} (refusal {refusals}; at {MAX_REFUSALS} the run is locked here)", public_reason=NOT_USABLE
        )

    def _count_refusal(self, active: ActiveRun) -> int:
        """Puts a refusal on file before anybody hears of it. A locked run has no use for its key."""
        kept = replace(active.kept, refusals=active.kept.refusals + 1)
        locked = kept.refusals >= MAX_REFUSALS
        if locked:
            kept = replace(kept, secrets=None)
        self._state.keep_run(active.run, kept)
        self._active = None if locked else replace(active, kept=kept)
        return kept.refusals

    def _finish(self, task: Task) -> bytes:
        kept = self._kept(task.run)
        given = self._state.release(task.run)
        if kept is None:
            if not self._state.model_path(task.run).exists():
                self._running(task.run)
            return given or b""
        if given is None:
            given = self._keep_model(task)
            if given:
                self._state.keep_release(task.run, given)
        self._state.end_run(task.run)
        self._active = self._setup = None
        return given

    def _keep_model(self, task: Task) -> bytes:
        """Keeps this party's part of the model, and gives what the server gets of it."""
        active = self._running(task.run)
        part = model_part_from_bytes(task.body, features=len(self._shard.features))
        weights = self._guarded(active, lambda: active.algorithm.final_model(part.state))
        release = self._release(active, part, weights)
        figures = {"primal": part.primal, "dual": part.dual, "gap": part.gap}
        self._state.keep_model(task.run, sorted(self._shard.features), weights, figures)
        return release

    def _release(self, active: ActiveRun, part: ModelPart, weights: NDArray[np.float64]) -> bytes:
        """What the server gets of the model: nothing, unless this party's own roster says otherwise."""
        if not self._releases:
            return b""
        given = released_weights(weights, part, layout=active.layout, noise=active.noise)
        exact = "exact" if active.noise is None else f"with noise of standard deviation {active.noise.sigma:.3g}"
        log.info("run %s: %d weights go to the server, %s, as the roster has it", active.run, len(given), exact)
        return model_release_to_bytes(given)
