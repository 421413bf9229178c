"""The two stores, driven in lockstep: they answer alike, refuse alike, and a restart of the durable one is unseen."""

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from fenchel_common.errors import FenchelError
from fenchel_common.ids import RunId
from fenchel_server.store import Ending, MemoryStore, RoundRecord, RunStatus, SqliteStore, Store
from support.records import Clock, round_record, setup_record

RUN_NAMES = st.sampled_from(["a", "b", "c", "bad/name"])
ROUND_IDS = st.integers(0, 4)
SNAPSHOTS = st.binary(max_size=40)
TRANSCRIPTS = st.lists(st.binary(max_size=3), max_size=3)
REASONS = st.text(max_size=20)


class LockstepStores(RuleBasedStateMachine):
    """Each rule does the same to both stores and compares what comes back, errors included."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.memory_clock, self.sqlite_clock = Clock(), Clock()
        self.memory: Store = MemoryStore(clock=self.memory_clock)
        self.sqlite: Store = SqliteStore.serve(self.directory, clock=self.sqlite_clock)

    def teardown(self) -> None:
        self.sqlite.close()
        shutil.rmtree(self.directory)

    def both(self, act: Callable[[Store], object]) -> None:
        # A refused action may read one store's clock and not the other's.
        self.memory_clock.now = self.sqlite_clock.now = max(self.memory_clock.now, self.sqlite_clock.now)
        assert outcome(act, self.memory) == outcome(act, self.sqlite)

    @rule(target=runs, run=RUN_NAMES, name=REASONS, config=REASONS)
    def create(self, run: str, name: str, config: str) -> RunId:
        self.both(lambda store: store.create_run(RunId(run), name=name, config=config))
        return RunId(run)

    @rule(run=runs)
    def begin_attempt(self, run: RunId) -> None:
        self.both(lambda store: store.begin_attempt(run))

    @rule(run=runs, snapshot=SNAPSHOTS, transcript=TRANSCRIPTS)
    def commit_setup(self, run: RunId, snapshot: bytes, transcript: list[bytes]) -> None:
        self.both(lambda store: store.commit_setup(run, setup_record(), round_record(0), snapshot, transcript))

    @rule(run=runs, snapshot=SNAPSHOTS, transcript=TRANSCRIPTS, absent=st.sets(st.sampled_from(["north", "south"])))
    def commit_next_round(self, run: RunId, snapshot: bytes, transcript: list[bytes], absent: set[str]) -> None:
        def commit(store: Store) -> None:
            record = round_record((store.last_round(run) or 0) + 1, absent=tuple(sorted(absent)))
            store.commit_round(run, record, snapshot, transcript)

        self.both(commit)

    @rule(run=runs, round_id=ROUND_IDS, snapshot=SNAPSHOTS, reason=REASONS)
    def commit_any_round(self, run: RunId, round_id: int, snapshot: bytes, reason: str) -> None:
        plain = round_record(round_id)
        ending = Ending(RunStatus.COMPLETED, reason)
        record = RoundRecord(plain.round_id, plain.metrics, (), plain.bytes_up, plain.bytes_down, plain.seconds, ending)
        self.both(lambda store: store.commit_round(run, record, snapshot))

    @rule(run=runs, reason=REASONS)
    def request_stop(self, run: RunId, reason: str) -> None:
        self.both(lambda store: store.request_stop(run, reason=reason))

    @rule(run=runs, status=st.sampled_from(RunStatus), reason=REASONS, outcome=st.none() | REASONS, seen=REASONS)
    def close_run(self, run: RunId, status: RunStatus, reason: str, outcome: str | None, seen: str) -> None:
        self.both(lambda store: store.close_run(run, status, reason=reason, outcome=outcome, seen=seen))

    @rule(run=runs)
    def requeue(self, run: RunId) -> None:
        self.both(lambda store: store.requeue(run))

    @rule()
    def restart(self) -> None:
        self.sqlite.close()
        self.sqlite = SqliteStore.serve(self.directory, clock=self.sqlite_clock)

    @rule(run=runs)
    def read_beside_the_server(self, run: RunId) -> None:
        with SqliteStore.inspect(self.directory) as reader:
            for ask in QUESTIONS:
                about_it = partial(ask, run)
                assert outcome(about_it, reader) == outcome(about_it, self.memory)

    @invariant()
    def the_same_runs(self) -> None:
        assert self.memory.runs() == self.sqlite.runs()
        assert self.memory.pending() == self.sqlite.pending()

    @rule(run=runs)
    def the_same_answers(self, run: RunId) -> None:
        for ask in QUESTIONS:
            self.both(partial(ask, run))


QUESTIONS: tuple[Callable[[RunId, Store], object], ...] = (
    lambda run, store: store.run(run),
    lambda run, store: store.setup(run),
    lambda run, store: store.rounds(run),
    lambda run, store: store.last_round(run),
    lambda run, store: store.snapshot(run),
    lambda run, store: store.stop_request(run),
)


def outcome(act: Callable[[Store], object], store: Store) -> object:
    try:
        return act(store)
    except FenchelError as error:
        return type(error), str(error)


TestLockstepStores = LockstepStores.TestCase
TestLockstepStores.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
