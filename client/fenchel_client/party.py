"""A party at work: it gives each task to the object that answers it, and counts the values in task and result.

The set-up is in `setup` and `labels`, the rounds and the end in `currentrun`, the records of runs in `runrecords`.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from fenchel_client.alignment import OwnData, arrange
from fenchel_client.consent import Consent
from fenchel_client.crypto.timed import Stopwatch, in_steps
from fenchel_client.currentrun import CurrentRun
from fenchel_client.firstresults import FirstResults
from fenchel_client.runrecords import RunRecords
from fenchel_client.setup import FIRST_ALIGNMENT, SetupClient
from fenchel_client.statefolder import StateFolder
from fenchel_client.task import Cluster, Task
from fenchel_client.tasklimits import before_layout, recorded_task_limit, round_task_limit, setup_task_limit
from fenchel_common.algorithms.settings import AlgorithmSettings
from fenchel_common.errors import Refusal
from fenchel_common.identity import Kit, LiveKit
from fenchel_common.leakage import Direction
from fenchel_common.processmemory import peak_memory_bytes
from fenchel_common.setup import (
    BEFORE_ROUNDS,
    FINISH,
    GROUP_KEYS,
    INTRODUCE,
    LABELS,
    LAYOUT,
    PREPARE,
    ROWS,
    SEARCH,
    LayoutResult,
    PartyRun,
)
from fenchel_common.wire.frames import TaskKey
from fenchel_common.wire.labels import labels_compared_to_bytes, layout_result_to_bytes
from fenchel_common.wire.setup import phase_result_to_bytes

ANSWERED: Final = "it has answered to its layout in this set-up already"


class Party:
    """One organisation's side of a federation.

    The constructor copies a shard's matrix. A caller that then drops the shard has the matrix in memory once.
    `newer` is called when a set-up begins, and gives the shard for this and later runs if the party's data have
    changed; `Refusal` if they cannot be used. The workers of `cluster` encrypt and decrypt; without one, this process.
    """

    def __init__(
        self,
        kit: Kit | LiveKit,
        shard: OwnData,
        *,
        state: Path,
        consent: Consent | None = None,
        newer: Callable[[], OwnData | None] = lambda: None,
        cluster: Cluster | None = None,
    ) -> None:
        self._live_kit = LiveKit.of(kit)
        self._kit = self._live_kit.look()
        self._table = arrange(shard)
        self._newer = newer
        self._cluster = cluster
        self._records = RunRecords(StateFolder(state), party=self._kit.client_id)
        self._consent = consent or Consent()
        self._stopwatch = Stopwatch()
        self._setup: SetupClient | None = None
        self._first: FirstResults | None = None
        self._current = self._without_run()
        self._cpu_told_s = time.process_time()

    def handle(self, task: Task) -> bytes:
        """The result of a task, with its rounded times and the peak memory; `Refusal` if the party declines it."""
        before, began = replace(self._stopwatch), time.perf_counter()
        body = self._counted_answer(task)
        spent = self._stopwatch.spent_since(before, total_s=time.perf_counter() - began)
        told_s, self._cpu_told_s = self._cpu_told_s, time.process_time()
        cpu_s = in_steps(self._cpu_told_s - told_s)
        return phase_result_to_bytes(body, replace(spent, peak_memory_bytes=peak_memory_bytes(), cpu_s=cpu_s))

    @property
    def spent(self) -> Stopwatch:
        """A copy of what this party has spent on tasks since its process began."""
        return replace(self._stopwatch)

    @property
    def kept(self) -> PartyRun | None:
        """The record of the run that this party works on; None if there is none, or its layout is not known yet."""
        active = self._current.active
        return None if active is None else active.kept

    @property
    def last_gap(self) -> float | None:
        """The last duality gap of the run at work that this party computed; None if it computed none."""
        active = self._current.active
        return None if active is None else active.participant.last_gap()

    def idle(self) -> AbstractContextManager[object]:
        """A context during which nonces for the next round are made; the ledger is saved before it begins.

        No nonces are made if the run is about to end by what this party has opened.
        """
        active = self._current.active
        if active is None:
            return nullcontext()
        self._records.save_ledger(active.run)
        if active.pool is None or active.participant.reached(active.settings.stop.gap):
            return nullcontext()
        return active.pool.idle()

    def task_limit(self, key: TaskKey) -> int:
        """The most bytes of a task; `Refusal` if this party does not know the run.

        Another thread may call this during a task, so it makes no run active.
        """
        if before_layout(key):
            config, table = (None, self._table) if self._setup is None else (self._setup.config, self._setup.table)
            return setup_task_limit(key, config, table=table, parties=len(self._kit.roster.parties))
        active = self._current.active
        if active is not None and active.run == key.run:
            return round_task_limit(key, active.extent, active.settings)
        return recorded_task_limit(key, self._records, table=self._table, kit=self._kit)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of this party's samples now."""
        return self._table.ids

    def feature_names(self) -> dict[str, str]:
        """The names of this party's features by their pseudonyms in the last set-up; empty before that has a key."""
        setup = self._setup
        return {} if setup is None or setup.secrets is None else setup.features_by_pseudonym()

    def _counted_answer(self, task: Task) -> bytes:
        """The answer to a task; the values in the task and in the answer are counted."""
        settings = self._settings_of(task)
        if settings is None and (task.round > 0 or task.phase in (GROUP_KEYS, *BEFORE_ROUNDS, LABELS)):
            # This process does not know the run and cannot read the task, as the answer says.
            return self._answer(task)
        ledger = self._records.ledger(task.run)
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
                return self._current.running(task.run, kit=self._kit).settings
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
            active = self._current.running(task.run, kit=self._kit)
            return self._current.answer(active, task)
        if task.phase == INTRODUCE:
            self._look_at_data()
            self._records.begin_setup(task.run)
        if task.phase == INTRODUCE or self._setup is None or self._setup.run != task.run:
            # A set-up has the same roster to its end; only the next set-up uses a newer one.
            self._kit = self._live_kit.look()
            self._setup = SetupClient(self._kit, self._table, task.run, self._consent)
            if task.phase != INTRODUCE:
                self._records.take_up(self._setup, task)
        if task.phase == LAYOUT:
            return self._begin(self._setup, task)
        if task.phase == PREPARE:
            return self._prepare(self._setup, task)
        if task.phase in SEARCH:
            return self._search(self._setup, task)
        if task.phase == ROWS:
            return self._divide_rows(self._setup, task)
        if task.phase == LABELS:
            return self._compare_labels(self._setup, task.body)
        answered = self._setup.answer(task.phase, task.body)
        self._records.keep_setup(self._setup, task)
        if task.phase == FIRST_ALIGNMENT:
            self._records.folder.keep_features(task.run, self._setup.features_by_pseudonym())
        return answered

    def _look_at_data(self) -> None:
        """Takes the party's data as they are now."""
        if (shard := self._newer()) is not None:
            self._table = arrange(shard)
            self._current = self._without_run()

    def _without_run(self) -> CurrentRun:
        return CurrentRun(
            self._table, self._records, stopwatch=self._stopwatch, consent=self._consent, cluster=self._cluster
        )

    def _begin(self, setup: SetupClient, task: Task) -> bytes:
        """Makes the run active; returns the algorithm's preparation and the marks of labels with other holders."""
        if setup.config is None or setup.secrets is None or setup.introductions is None or setup.names is None:
            raise Refusal("the layout came before the key or the names", public_reason="it restarted during the set-up")
        if setup.labels is not None:
            # With a second answer the run would begin anew under the same key, and forget the records of its rounds.
            raise Refusal("the server gives the layout of a set-up a second time", public_reason=ANSWERED)
        own = replace(setup.secrets, masks=setup.masks)
        due = PartyRun(setup.config, own, own.digest(), task.body, view=b"", vocabulary=setup.vocabulary)
        active = self._current.begin(
            setup.run,
            due,
            introductions=setup.introductions,
            table=setup.table,
            check=setup.names.check,
            kit=self._kit,
            attempt=task.attempt,
        )
        first = FirstResults(active, secret=setup.secrets.alignment_secret, run=setup.run)
        self._first, setup.labels = first, first.labels
        return self._given(task, lambda: first.first(active))

    def _prepare(self, setup: SetupClient, task: Task) -> bytes:
        """Prepares features and labels, or begins the search for what prepares them; returns what follows."""
        first = self._first
        if setup.labels is None or first is None or not first.preparing:
            raise Refusal("no moments were given in this set-up", public_reason="it has given no moments of features")
        first.preparing = False
        running = self._current.running(setup.run, kit=self._kit)
        if running.kept.config.range_scale is not None:
            self._current.guarded(running, lambda: first.begin_search(task.body, running))
            return self._given(task, first.counted)
        active = self._current.prepare(running, lambda: first.learnt(task.body, running))
        return self._given(task, lambda: first.second(active))

    def _search(self, setup: SetupClient, task: Task) -> bytes:
        """Takes a step of the search; returns the counts of the next one, or what follows on prepared features."""
        first = self._first
        if setup.labels is None or first is None or first.ranges is None:
            raise Refusal("no counts were given in this set-up", public_reason="it has given no counts of values")
        if task.phase != SEARCH[first.ranges.search.step]:
            raise Refusal("a step of the search is out of turn", public_reason=ANSWERED)
        ranges, first.ranges = first.ranges, None
        running = self._current.running(setup.run, kit=self._kit)
        if task.phase == SEARCH[-1]:
            active = self._current.prepare(running, lambda: first.found(ranges, task.body, running))
            return self._given(task, lambda: first.second(active))
        self._current.guarded(running, lambda: ranges.take(task.body, running.participant.transcript))
        first.ranges = ranges
        return self._given(task, first.counted)

    def _divide_rows(self, setup: SetupClient, task: Task) -> bytes:
        """Divides rows by their lengths; returns the algorithm's preparation and the marks of labels."""
        first = self._first
        if setup.labels is None or first is None or first.lengths is None:
            raise Refusal("no lengths were given in this set-up", public_reason="it has given no lengths of rows")
        lengths, first.lengths = first.lengths, None
        running = self._current.running(setup.run, kit=self._kit)
        active = self._current.divide_rows(running, lambda: lengths.whole(task.body, running.participant.transcript))
        return self._given(task, lambda: first.prepared(active))

    def _given(self, task: Task, make: Callable[[], LayoutResult]) -> bytes:
        """A contribution between the layout and the first round."""

        def made() -> bytes:
            result = make()
            with self._stopwatch.serialising():
                return layout_result_to_bytes(result)

        active = self._current.active
        assert active is not None, "the run is active since its layout"
        return self._current.guarded(active, lambda: active.participant.contribution(task.moment, made))

    def _compare_labels(self, setup: SetupClient, sums: bytes) -> bytes:
        """The answer whether labels differ. If they do, training is meaningless, and the party deletes its key."""
        if setup.labels is None:
            raise Refusal("the sums of labels came before the layout", public_reason="it restarted during the set-up")
        transcript = self._current.running(setup.run, kit=self._kit).participant.transcript
        differ = setup.labels.differs(sums, transcript)
        kept = self._records.kept(setup.run)
        if differ and kept is not None:
            self._records.folder.keep_run(setup.run, replace(kept, secrets=None))
            self._forget()
        return labels_compared_to_bytes(differ=differ)

    def _forget(self) -> None:
        """Forgets the run under way and its set-up, with all their keys."""
        self._current.active = self._setup = self._first = None

    def _finish(self, task: Task) -> bytes:
        kept, folder = self._records.kept(task.run), self._records.folder
        given = folder.release(task.run)
        if kept is None:
            if not (folder.model_path(task.run).exists() or folder.scores_path(task.run).exists()):
                self._current.running(task.run, kit=self._kit)
            return given or b""
        if given is None:
            given = self._current.keep_model(self._current.running(task.run, kit=self._kit), task.body)
            if given:
                folder.keep_release(task.run, given)
        folder.end_run(task.run)
        self._forget()
        return given
