"""Fuzzes every decoder: `python -m fuzz.campaign [--inputs N] [--seed N] [--guided-runs N]`.

First come mutations of valid inputs, evenly over the decoders and the same ones for the same seed; then, where atheris
is installed, inputs that it finds by the code that they reach. Ends with status 1 if any input broke the contract.
"""

import argparse
import importlib.util
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.decoder import Decoder, Finding, guarded, rewind, try_input, try_memory, warm_up
from fuzz.mutation import Mutator
from fuzz.registry import decoders

WATCHED = 50
"""For so many inputs of each decoder, every allocation is counted."""
SHOWN_FINDINGS = 5
MEMORY_GROWTH_BYTES = 64 * 1024 * 1024
"""By how much the peak memory of a campaign may grow, however many inputs it has."""


@dataclass(frozen=True)
class Report:
    """What became of the inputs of one decoder."""

    decoder: str
    inputs: int
    taken: int
    slowest_s: float
    seconds: float
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        pace = self.seconds / max(self.inputs, 1) * 1e6
        return (
            f"{self.decoder:45} {self.inputs:9} inputs {self.taken:9} taken {len(self.findings):3} findings"
            f" {pace:6.0f} µs each, {self.slowest_s * 1e3:6.1f} ms at most"
        )


def fuzz(decoder: Decoder, *, inputs: int, seed: int, watched: int = WATCHED) -> Report:
    """Tries this many inputs; must run inside `guarded`."""
    rng = random.Random(f"{seed} {decoder.name}")
    mutator = Mutator(decoder.seeds, decoder.message)
    findings: dict[str, Finding] = {}
    taken, slowest_s = 0, 0.0
    began = time.perf_counter()
    for number in range(inputs):
        data = mutator.fresh(rng)
        rewind()
        started = time.perf_counter()
        outcome = try_memory(decoder, data) if number < watched else try_input(decoder, data)
        slowest_s = max(slowest_s, time.perf_counter() - started)
        if isinstance(outcome, Finding):
            findings.setdefault(outcome.problem, outcome)
        else:
            taken += outcome
    return Report(decoder.name, inputs, taken, slowest_s, time.perf_counter() - began, tuple(findings.values()))


def campaign(chosen: Iterable[Decoder], *, inputs: int, seed: int, watched: int = WATCHED) -> Iterator[Report]:
    """Tries this many inputs for each decoder; `warm_up` must have been called."""
    logging.disable(logging.CRITICAL)  # what a refusal logs is not of interest here, a million times
    try:
        for decoder in chosen:
            with guarded():
                report = fuzz(decoder, inputs=inputs, seed=seed, watched=watched)
            yield report
    finally:
        logging.disable(logging.NOTSET)


def peak_memory_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024


def _guided(runs: int) -> int:
    """The coverage-guided part, in a process of its own; the number of decoders with a finding."""
    if importlib.util.find_spec("atheris") is None:
        _say("atheris is not installed: no coverage-guided part (pip install --group fuzz)")
        return 0
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "fuzz.guided", "--runs", str(runs)]
    return subprocess.run(command, env=environment, check=False).returncode


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    options = argparse.ArgumentParser(description="Fuzzes every decoder of bytes from outside.")
    options.add_argument("--inputs", type=int, default=1_000_000, help="over all decoders")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--guided-runs", type=int, default=5_000, help="for each decoder, with atheris")
    options.add_argument("--only", default="", help="decoders whose names contain this")
    chosen = options.parse_args()
    listed = [decoder for name, decoder in decoders().items() if chosen.only in name]
    warm_up(listed)
    before, began = peak_memory_bytes(), time.monotonic()
    reports = []
    for report in campaign(listed, inputs=-(-chosen.inputs // len(listed)), seed=chosen.seed):
        reports.append(report)
        _say(str(report))
        for finding in report.findings[:SHOWN_FINDINGS]:
            _say(f"FINDING {finding}")
    total, found = sum(report.inputs for report in reports), sum(len(report.findings) for report in reports)
    growth = peak_memory_bytes() - before
    _say(
        f"{total} inputs over {len(listed)} decoders in {time.monotonic() - began:.0f} s: {found} findings,"
        f" peak memory grew by {growth / 2**20:.1f} MiB"
    )
    guided = _guided(chosen.guided_runs) if chosen.guided_runs else 0
    return int(bool(found or guided or growth > MEMORY_GROWTH_BYTES))


if __name__ == "__main__":
    sys.exit(main())
