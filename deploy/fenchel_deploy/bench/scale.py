"""How costs grow with the parties and with the samples: one run for each size, by real processes on this machine.

The table is made up: `samples` rows of normally distributed features, with labels of a linear rule that errs; or it is
a data set. It is split over a grid that is as square as the number of parties allows. Runs end after the same few
rounds, or at a gap.

    setup       seconds of the set-up by phase, from one phase's first task to that of the next; `start` is the time
                from the start of the processes to the first task
    round       median seconds of a round, and those of its phases in the median
    bytes       of the median round, and of the set-up, up and down
    round_cpu   CPU seconds of the median round, of the server and of all parties together; other work on the machine
                does not change them
    memory      MiB. `idle`: the server when it sends the first task; `peak`: the most that a process had in memory, as
                the kernel counts it, of the server in each phase too; `pss`: the most of its share of memory that was
                seen when a phase began

An exponent e says that a cost grows like size^e: least squares of the logarithms over all runs with a cipher, in
samples and in parties at once.
"""

import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fenchel_common import defaults
from fenchel_common.algorithms.corrective.settings import CorrectiveSettings
from fenchel_common.crypto.packing import slot_layout
from fenchel_common.crypto.words import word_type
from fenchel_common.data.datasets import Dataset, load_dataset
from fenchel_common.data.partition import partition
from fenchel_common.errors import FenchelError, InvalidInput
from fenchel_common.runconfig import AlignmentWord, RunConfig
from fenchel_deploy.bench.ciphers import CIPHERS, PLAIN
from fenchel_deploy.bench.processes import (
    check_measurable,
    forget_peak_memory,
    peak_memory_mib,
    pss_mib,
)
from fenchel_deploy.folders import SERVER
from fenchel_deploy.local import LocalFederation

SCALED_CIPHERS: Final = tuple(name for name in CIPHERS if name != PLAIN)
FEATURES: Final = 20
ERRING: Final = 0.1
"""The share of labels that differ from the rule."""
DEADLINE_S: Final = 86_400.0
"""A phase is bounded by its work, not by a party that is gone: all processes are on this machine."""
START: Final = "start"
VECTORS_BY_SAMPLE: Final = 2
"""The vectors by sample that the answers of one phase are added up to: points and vertices, or points and α."""
MIB: Final = 2.0**20
SMALLEST: Final = 1e-9
"""What a cost counts at least in the logarithm of a fit."""
COSTS: Final = ("round_s", "round_cpu_total_s", "setup_s", "round_bytes", "server_beyond_idle_mib", "party_peak_mib")

Row = dict[str, Any]
Tell = Callable[[str], None]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """One run: how many parties and samples it has, and its cipher."""

    parties: int
    samples: int
    cipher: str
    features: int = FEATURES

    @property
    def grid(self) -> tuple[int, int]:
        """Row groups times column groups, as square as the number of parties allows."""
        rows = next(rows for rows in range(int(self.parties**0.5), 0, -1) if self.parties % rows == 0)
        return self.parties // rows, rows

    def describe(self) -> Row:
        rows, columns = self.grid
        return {
            "parties": self.parties,
            "grid": f"{rows}x{columns}",
            "samples": self.samples,
            "features": self.features,
            "cipher": self.cipher,
        }


@dataclass(frozen=True, slots=True)
class ScaleBench:
    """The sizes to measure. A run ends after `rounds` rounds, or at the gap if that is reached before.

    With a `dataset` all runs have its samples, and `samples` does not count.
    """

    parties: Sequence[int]
    samples: Sequence[int]
    ciphers: Sequence[str]
    rounds: int = 3
    gap: float = defaults.REPEATED_GAP
    key_bits: int = defaults.DEMO_KEY_BITS
    seed: int = defaults.SEED
    alignment: AlignmentWord = defaults.ALIGNMENT
    dataset: str | None = None

    def check(self) -> None:
        """Raises `InvalidInput` for a size that no run can have."""
        for size in self.sizes():
            rows, columns = size.grid
            if columns > size.features or rows > size.samples:
                raise InvalidInput(
                    f"--parties: {size.parties} parties make a grid of {rows}x{columns}, which {size.samples} samples"
                    f" of {size.features} features do not fill; choose a number with a more even split, such as 16"
                )

    def sizes(self) -> Iterator[Size]:
        given = None if self.dataset is None else load_dataset(self.dataset).X.shape
        for cipher in self.ciphers:
            for samples, features in [given] if given else [(samples, FEATURES) for samples in self.samples]:
                for parties in self.parties:
                    yield Size(parties, samples, cipher, features)

    def run(self, tell: Tell) -> Row:
        """Measures every size, the small ones first. A run that fails has its reason in `failed` and no figures."""
        check_measurable()
        self.check()
        rows: list[Row] = []
        for size in self.sizes():
            try:
                row = self.measured(size)
            except FenchelError as error:
                row = {**size.describe(), "failed": str(error)}
            rows.append(row)
            tell(_line(row))
        fitted = {cipher: exponents([row for row in rows if row["cipher"] == cipher]) for cipher in self.ciphers}
        return {"results": rows, "exponents": fitted}

    def config(self, cipher: str) -> RunConfig:
        options = CIPHERS[cipher]
        return RunConfig.from_mapping(
            {
                "name": "scale",
                "settings": {"loss": defaults.LOSS, "lambda": defaults.LAMBDA},
                "alignment": self.alignment,
                "cipher": options.get("cipher", defaults.CIPHER),
                "key": {"bits": self.key_bits, "kind": options.get("key_kind", defaults.KEY_KIND)},
                "round": {"deadline_s": DEADLINE_S, "quorum": 1.0},
                "stop": {"gap": self.gap, "rounds": self.rounds},
                "seed": self.seed,
            }
        )

    def measured(self, size: Size) -> Row:
        """One run from the start of its processes to its end."""
        table = made_up(size.samples, self.seed) if self.dataset is None else load_dataset(self.dataset)
        shards = partition(table, grid=size.grid, seed=self.seed)
        config = self.config(size.cipher)
        with tempfile.TemporaryDirectory(prefix="fenchel-scale-") as scratch:
            named = {f"party-{number:04d}": shard for number, shard in enumerate(shards, 1)}
            federation = LocalFederation(Path(scratch), named, config)
            del table, shards, named
            began_s = time.monotonic()
            with federation:
                meter = ScaleMeter(federation, began_s)
                for came_s, event in timed(federation.events()):
                    meter.observe(event, came_s)
                federation.wait()
                if not meter.rounds:
                    raise InvalidInput(f"no round was completed: {meter.reason or federation.log(SERVER)[-500:]}")
        return {**size.describe(), **meter.figures(), "largest_sum_mib": largest_sum_mib(config, size)}


class ScaleMeter:
    """What the events of a federation's server and the memory of its processes show of one run."""

    def __init__(self, federation: LocalFederation, began_s: float) -> None:
        assert federation.server is not None
        self.rounds: list[Event] = []
        self.reason = ""
        self._server = federation.server.pid
        self._parties = [process.pid for process in federation.clients.values()]
        self._beside = [] if federation.forks is None else [federation.forks.pid]
        self._phase, self._since_s = (0, START), began_s
        self._seconds: dict[tuple[int, str], float] = {}
        self._idle_mib = 0.0
        self._pss: dict[str, float] = {}
        self._peaks: dict[str, float] = {}
        self._server_peaks: dict[tuple[bool, str], float] = {}

    def observe(self, event: Event, came_s: float) -> None:
        """Takes an event of the server, and when it came."""
        if event["event"] == "phase":
            self._end_phase((event["round"], event["phase"]), came_s)
        elif event["event"] == "round":
            self._end_phase((event["round"], ""), came_s)
            self.rounds.append(event)
        elif event["event"] == "ended":
            self.reason = event["reason"]

    def figures(self) -> Row:
        """The figures of a run that had a round."""
        setup = {phase: seconds for (round_id, phase), seconds in self._seconds.items() if not round_id}
        phases = dict.fromkeys(phase for round_id, phase in self._seconds if round_id and phase)
        way = {name: [event["costs"]["bytes"][name] for event in self.rounds] for name in ("up", "down")}
        round_s = [event["costs"]["seconds"]["total"] for event in self.rounds]
        setup_s = sum(seconds for phase, seconds in setup.items() if phase != START)
        beyond = self._peaks["server"] - self._idle_mib
        cpu = [event["costs"]["cpu_seconds"] for event in self.rounds]
        return {
            "rounds": len(self.rounds),
            "ended": self.reason,
            "gap": self.rounds[-1]["gap"],
            "start_s": setup.pop(START),
            "setup_s": setup_s,
            "setup_phases_s": setup,
            "round_s": statistics.median(round_s),
            "round_phases_s": {phase: self._median_of(phase) for phase in phases},
            "total_s": sum(self._seconds.values()),
            "round_cpu_s": {name: statistics.median(one[name] for one in cpu) for name in cpu[0]},
            "round_cpu_total_s": statistics.median(sum(one.values()) for one in cpu),
            "bytes_up": statistics.median(way["up"]),
            "bytes_down": statistics.median(way["down"]),
            "round_bytes": statistics.median(map(sum, zip(*way.values(), strict=True))),
            "server_idle_mib": self._idle_mib,
            "server_peak_mib": self._peaks["server"],
            "server_setup_peaks_mib": {phase: peak for (setup, phase), peak in self._server_peaks.items() if setup},
            "server_round_peaks_mib": {phase: peak for (setup, phase), peak in self._server_peaks.items() if not setup},
            "server_beyond_idle_mib": beyond,
            "server_pss_mib": self._pss["server"],
            "party_peak_mib": self._peaks["party"],
            "party_pss_mib": self._pss["party"],
            "all_pss_mib": self._pss["all"],
        }

    def _median_of(self, phase: str) -> float:
        return statistics.median(
            seconds for (round_id, name), seconds in self._seconds.items() if round_id and name == phase
        )

    def _end_phase(self, following: tuple[int, str], ended_s: float) -> None:
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + ended_s - self._since_s
        self._look_at_memory()
        self._phase, self._since_s = following, ended_s

    def _look_at_memory(self) -> None:
        # After the last round processes end, while this looks at them.
        with suppress(ProcessLookupError):
            parties = [pss_mib(party) for party in self._parties]
            server = pss_mib(self._server)
            seen = {
                "server": server,
                "party": max(parties),
                "all": server + sum(parties) + sum(map(pss_mib, self._beside)),
            }
            peaks = {"server": peak_memory_mib(self._server), "party": max(map(peak_memory_mib, self._parties))}
            forget_peak_memory(self._server)
            self._pss = {name: max(size, self._pss.get(name, 0.0)) for name, size in seen.items()}
            self._idle_mib = self._idle_mib or peaks["server"]
            ended = (not self._phase[0], self._phase[1])
            self._server_peaks[ended] = max(peaks["server"], self._server_peaks.get(ended, 0.0))
            self._peaks = {name: max(peak, self._peaks.get(name, 0.0)) for name, peak in peaks.items()}


def timed(events: Iterator[Event]) -> Iterator[tuple[float, Event]]:
    """The events, each with the time at which it came: who takes them may be busy with the one before."""
    came: queue.SimpleQueue[tuple[float, Event] | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for event in events:
                came.put((time.monotonic(), event))
        finally:
            came.put(None)

    threading.Thread(target=read, name="events", daemon=True).start()
    while (one := came.get()) is not None:
        yield one


def made_up(samples: int, seed: int) -> Dataset:
    """A table of `samples` rows, the same for every number of parties."""
    rng = np.random.default_rng([seed, samples])
    X = rng.standard_normal((samples, FEATURES)) / FEATURES**0.5
    y = np.where(X @ rng.standard_normal(FEATURES) > 0.0, 1.0, -1.0)
    y[rng.random(samples) < ERRING] *= -1.0
    return Dataset("made-up", X, y, tuple(f"x{number:02d}" for number in range(FEATURES)))


def largest_sum_mib(config: RunConfig, size: Size) -> float:
    """The memory of the sums of the phase that has the largest: two vectors by sample, of all samples."""
    settings = config.algorithm_settings()
    assert isinstance(settings, CorrectiveSettings)
    alpha = settings.formats(size.parties).alpha
    slots = slot_layout(alpha, config.key.bits).slots
    in_block = slots * word_type(alpha).itemsize if config.cipher == "masks" else config.key.bits // 4
    return VECTORS_BY_SAMPLE * -(-size.samples // slots) * in_block / MIB


def exponents(rows: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """For each cost the exponents in samples and in parties; None for a size of which fewer than two were measured."""
    measured = [row for row in rows if "failed" not in row]
    return {cost: _exponents_of(measured, cost) for cost in COSTS}


def _exponents_of(rows: Sequence[Row], cost: str) -> dict[str, float | None]:
    varied = [name for name in ("samples", "parties") if len({row[name] for row in rows}) > 1]
    sizes = np.array([[1.0, *(np.log(row[name]) for name in varied)] for row in rows])
    found: dict[str, float | None] = dict.fromkeys(("samples", "parties"))
    if varied and len(rows) > len(varied):
        costs = np.log([max(row[cost], SMALLEST) for row in rows])
        solution = np.linalg.lstsq(sizes, costs, rcond=None)[0]
        found |= dict(zip(varied, solution[1:].tolist(), strict=True))
    return found


def _line(row: Row) -> str:
    head = f"{row['cipher']}, {row['parties']} parties, {row['samples']} samples: "
    if "failed" in row:
        return f"{head}failed: {row['failed']}"
    server = f"{row['server_idle_mib']:.0f} + {row['server_beyond_idle_mib']:.0f}"
    return (
        f"{head}start {row['start_s']:.1f} s, set-up {row['setup_s']:.1f} s, {row['rounds']} rounds of"
        f" {row['round_s']:.2f} s and {row['round_bytes'] / 1e6:.1f} MB, server {server} MiB,"
        f" party {row['party_peak_mib']:.0f} MiB, all {row['all_pss_mib']:.0f} MiB"
    )
