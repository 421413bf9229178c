"""One run with each cipher, by real processes on this machine, one after another: what encryption costs.

Compared are the rounds alone, without the start of the processes, the set-up (introductions, key ceremony, alignment,
layouts, labels) and the last phase, in which the parties get the model:

    seconds, bytes    of the records of all rounds, the one that certifies the last model included; seconds by the kinds
                      of the server's round ledger
    cpu_seconds       of all threads and children of the parties and of the server, from the first task of the first
                      round to the first task of the last phase; nonces that are made in that time are included
    setup_seconds     from the start of the processes to the first task of the first round
    peak_memory_mib   the most that each process had in memory by the end of the rounds, set-up included

Runs alternate: each cipher once, then each once more. Reported are medians over the repeats, and medians of the
repeats' own ratios, because a machine drifts by tens of per cent within minutes. Key size, block size and seed are the
same for all, so that all end with the same model.
"""

import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fenchel_common import defaults
from fenchel_common.errors import InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_common.runconfig import RunConfig
from fenchel_common.runsections import RoundConfig
from fenchel_common.setup import FINISH
from fenchel_deploy.bench.processes import check_measurable, cpu_seconds, peak_memory_mib
from fenchel_deploy.demonstration import Demonstration, Report
from fenchel_deploy.folders import SERVER, run_toml
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.running import Event
from fenchel_deploy.wan import NEAR, Wan
from fenchel_server.rounds.ledger import TOTAL

PLAIN: Final = "plain"
CIPHERS: Final[Mapping[str, Mapping[str, Any]]] = {
    PLAIN: {"privacy": Privacy.PLAIN},
    "masks": {"cipher": "masks"},
    "paillier": {"key_kind": "standard"},
    "paillier-subgroup": {"key_kind": "subgroup"},
}
"""For each cipher the options of the demonstration in which it differs from the others."""
THIS: Final = "this"
CHECK_S: Final = 60.0
READS_RUN: Final = (
    "import sys, pathlib, fenchel_common.runconfig as c; c.RunConfig.from_toml(pathlib.Path(sys.argv[1]))"
)

Row = dict[str, Any]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of Fenchel: its name in the report, and its Python interpreter."""

    name: str = THIS
    python: str = sys.executable

    @classmethod
    def parse(cls, text: str) -> "Installation":
        """Reads NAME=PYTHON."""
        name, _, python = text.partition("=")
        if not name or not python or name == THIS:
            raise InvalidInput(
                f"--against: {text!r} is not of the form NAME=PYTHON, such as old=/path/.venv/bin/python"
            )
        if not Path(python).is_file():
            raise InvalidInput(f"--against: there is no file {python}; name the Python of another installation")
        return cls(name, python)

    def knows(self, config: RunConfig) -> bool:
        """Whether this installation can run such a configuration."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(run_toml(config))
            file.flush()
            command = [self.python, "-c", READS_RUN, file.name]
            return not subprocess.run(command, capture_output=True, timeout=CHECK_S, check=False).returncode


@dataclass(frozen=True, slots=True)
class Measured:
    """The costs of one run, and a digest of its model."""

    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    bytes: Mapping[str, int]
    rounds: int
    gap: float | None
    setup_seconds: float
    peak_memory_mib: Mapping[str, float]
    model: str

    def costs(self) -> dict[str, float]:
        """The three sums of which ratios are reported."""
        return {
            "seconds": self.seconds[TOTAL],
            "cpu": sum(self.cpu_seconds.values()),
            "bytes": sum(self.bytes.values()),
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """A cipher of an installation."""

    cipher: str
    installation: Installation = Installation()

    @property
    def label(self) -> str:
        return self.cipher if self.installation.name == THIS else f"{self.cipher} of {self.installation.name}"


@dataclass(frozen=True, slots=True)
class CipherBench:
    """The run that is repeated with each cipher, over a network, and another installation to compare with."""

    demonstration: Demonstration
    ciphers: Sequence[str]
    repeats: int = 1
    wan: Wan = NEAR
    against: Installation | None = None

    def run(self, tell: Tell) -> list[Row]:
        """Measures, and returns one row for each cipher and installation. `tell` gets a line for each run."""
        check_measurable()
        subjects = self.subjects(tell)
        found: dict[Subject, list[Measured]] = {subject: [] for subject in subjects}
        for repeat in range(1, self.repeats + 1):
            for subject in subjects:
                measured = self.measured(subject)
                found[subject].append(measured)
                tell(_line(f"{repeat} of {self.repeats}, {subject.label}", measured))
        return [self._row(subject, found) for subject in subjects]

    def subjects(self, tell: Tell) -> list[Subject]:
        """The ciphers of this installation and, beside each, the same of the other one if that knows it."""
        subjects = []
        for cipher in self.ciphers:
            subjects.append(Subject(cipher))
            if self.against is not None:
                if self.against.knows(self.config(cipher)):
                    subjects.append(Subject(cipher, self.against))
                else:
                    tell(f"left out: {self.against.name} cannot run {cipher}")
        if self.against is not None and all(subject.installation != self.against for subject in subjects):
            raise InvalidInput(
                f"--against: {self.against.python} can run none of these ciphers; is Fenchel installed there?"
            )
        return subjects

    def config(self, cipher: str) -> RunConfig:
        """The configuration of the run with a cipher; no party may be missing in a round."""
        config = self._with(cipher).config("bench")
        together = RoundConfig(deadline_s=defaults.REPEATED_DEADLINE_S, quorum=1.0)
        return config.model_copy(update={"round": together})

    def measured(self, subject: Subject) -> Measured:
        """One run from its set-up to its end."""
        demonstration = self._with(subject.cipher)
        with tempfile.TemporaryDirectory(prefix="fenchel-bench-") as scratch:
            federation = LocalFederation(
                Path(scratch),
                demonstration.shards,
                self.config(subject.cipher),
                python=subject.installation.python,
                wan=self.wan,
            )
            began_s = time.monotonic()
            with federation:
                meter = Meter(federation, began_s)
                report = demonstration.follow(federation, meter.observe)
                model = federation.model(demonstration.dataset.features)
        return measured_of(report, meter, hashlib.sha256(model.tobytes()).hexdigest())

    def _with(self, cipher: str) -> Demonstration:
        return replace(self.demonstration, options=replace(self.demonstration.options, **CIPHERS[cipher]))

    def _row(self, subject: Subject, found: Mapping[Subject, Sequence[Measured]]) -> Row:
        runs = found[subject]
        row = {"cipher": subject.cipher, "commit": subject.installation.name, **summary(runs)}
        row["ratio_to_plain"] = ratios(runs, found.get(replace(subject, cipher=PLAIN)))
        if self.against is not None:
            row["ratio_to_against"] = {
                "plain": ratios(runs, found.get(Subject(PLAIN, self.against))),
                "same_cipher": ratios(runs, found.get(replace(subject, installation=self.against))),
            }
        return row


class Meter:
    """What a federation's processes spend, from the events of its server.

    CPU seconds count from the first task of a round to the first task of the last phase.

    Attributes
    ----------
    setup_seconds
        From `began_s`, by the monotonic clock, to the first task of a round.
    peak_memory_mib
        For each process, by name, the most that it had in memory by the end of the last round.
    """

    def __init__(self, federation: LocalFederation, began_s: float) -> None:
        assert federation.server is not None
        self.setup_seconds = 0.0
        self.peak_memory_mib: dict[str, float] = {}
        self._began_s = began_s
        clients = {name: process.pid for name, process in federation.clients.items()}
        self._by_name = {SERVER: federation.server.pid, **clients}
        self._processes: Mapping[str, Collection[int]] = {
            "parties": list(clients.values()),
            "server": [federation.server.pid],
        }
        self._began: Mapping[str, float] | None = None
        self._ended: Mapping[str, float] = {}

    def observe(self, event: Event) -> None:
        """Takes an event of the server, as it comes."""
        if event["event"] == "phase" and event["round"] and self._began is None:
            self.setup_seconds = time.monotonic() - self._began_s
            self._began = self._until_now()
        if event["event"] == "round" or (event["event"] == "phase" and event["phase"] == FINISH):
            self._ended = self._until_now()
            self.peak_memory_mib |= {name: peak_memory_mib(process) for name, process in self._by_name.items()}

    def spent(self) -> dict[str, float]:
        """CPU seconds of the parties and of the server; for a run that had a round and has ended."""
        assert self._began is not None
        return {name: self._ended[name] - began for name, began in self._began.items()}

    def _until_now(self) -> dict[str, float]:
        return {name: cpu_seconds(processes) for name, processes in self._processes.items()}


def measured_of(report: Report, meter: Meter, model: str) -> Measured:
    """The costs of the run of a demonstration, by its report and by what was seen of its processes."""
    costs = [one["costs"] for one in report["history"]]
    return Measured(
        seconds={kind: sum(cost["seconds"][kind] for cost in costs) for kind in costs[0]["seconds"]},
        cpu_seconds=meter.spent(),
        bytes={way: sum(cost["bytes"][way] for cost in costs) for way in ("up", "down")},
        rounds=report["rounds"],
        gap=report["gap"],
        setup_seconds=meter.setup_seconds,
        peak_memory_mib=meter.peak_memory_mib,
        model=model,
    )


def summary(runs: Sequence[Measured]) -> Row:
    """Medians over the repeats. `model` is None if they ended with different models."""

    def medians(name: str) -> dict[str, float]:
        return {key: statistics.median(getattr(run, name)[key] for run in runs) for key in getattr(runs[0], name)}

    return {
        "seconds": medians("seconds"),
        "cpu_seconds": medians("cpu_seconds"),
        "bytes": medians("bytes"),
        "rounds": statistics.median_low(run.rounds for run in runs),
        "gap": runs[0].gap,
        "setup_seconds": statistics.median(run.setup_seconds for run in runs),
        "peak_memory_mib": medians("peak_memory_mib"),
        "model": runs[0].model if len({run.model for run in runs}) == 1 else None,
    }


def ratios(runs: Sequence[Measured], others: Sequence[Measured] | None) -> dict[str, float] | None:
    """How many times the costs of the other runs: medians of the ratios of each repeat. None without other runs.

    None too if the other runs are too short for their CPU time to be seen.
    """
    if others is None or not all(other.costs()["cpu"] for other in others):
        return None
    pairs = [(run.costs(), other.costs()) for run, other in zip(runs, others, strict=True)]
    return {name: statistics.median(own[name] / other[name] for own, other in pairs) for name in pairs[0][0]}


def one_model(rows: Sequence[Row]) -> bool:
    """Whether all ciphers of an installation ended with the same model, to the last bit."""
    models: dict[str, set[str | None]] = {}
    for row in rows:
        models.setdefault(row["commit"], set()).add(row["model"])
    return all(len(found) == 1 and None not in found for found in models.values())


def _line(what: str, measured: Measured) -> str:
    costs = measured.costs()
    gap = "none" if measured.gap is None else f"{measured.gap:.1e}"
    return (
        f"{what}: {measured.rounds} rounds, gap {gap}, {costs['seconds']:.1f} s, {costs['cpu']:.1f} CPU s, "
        f"{costs['bytes'] / 1e6:.1f} MB"
    )
