"""CPU seconds and memory of running processes, read from outside in Linux's /proc.

CPU seconds come in steps of 10 ms. All threads of a process count, and so do all processes that it started: those that
it waited for are part of its own times there, and those that still run are found by their parents.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from fenchel_common.errors import InvalidInput

PROC: Final = Path("/proc")
PARENT, TIMES = 1, slice(11, 15)
"""Places behind the name in /proc/PID/stat: the parent, and the ticks of user and system, own and of ended children."""


def check_measurable() -> None:
    """Raises `InvalidInput` on a system that does not tell CPU times in this way."""
    if not (PROC / "self" / "stat").exists():
        raise InvalidInput("CPU times are read from /proc, which this system does not have; use Linux")


def cpu_seconds(processes: Collection[int]) -> float:
    """The CPU seconds of these processes, and of all that they started, until now."""
    found = _all_processes()
    counted = set(processes)
    while grown := {pid for pid, (parent, _) in found.items() if parent in counted} - counted:
        counted |= grown
    return sum(found[pid][1] for pid in counted if pid in found) / os.sysconf("SC_CLK_TCK")


def peak_memory_mib(process: int) -> float:
    """The most resident memory that a process has had, since its start or since `forget_peak_memory`.

    Raises `ProcessLookupError` if it does not run any more.
    """
    return _mib(process, "status", "VmHWM:")


def forget_peak_memory(process: int) -> None:
    """Lets `peak_memory_mib` begin anew with what the process has now; it must belong to this user."""
    (PROC / str(process) / "clear_refs").write_text("5")


def pss_mib(process: int) -> float:
    """A process's proportional share of memory: of a page that n processes share, each has an n-th.

    Raises `ProcessLookupError` if it does not run any more.
    """
    return _mib(process, "smaps_rollup", "Pss:")


def _mib(process: int, file: str, name: str) -> float:
    try:
        lines = (PROC / str(process) / file).read_text().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        if line.startswith(name):
            return int(line.split()[1]) / 1024.0
    raise ProcessLookupError(f"process {process} has ended")


def _all_processes() -> dict[int, tuple[int, int]]:
    """The parent and the ticks of every process of this machine."""
    found = {}
    for folder in PROC.iterdir():
        # A process may end while this looks.
        with suppress(OSError):
            if folder.name.isdecimal():
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(folder.name)] = int(fields[PARENT]), sum(map(int, fields[TIMES]))
    return found
