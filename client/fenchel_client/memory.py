"""The memory of this process."""

import ctypes
import resource
from pathlib import Path
from typing import Final

STATUS = Path("/proc/self/status")
M_ARENA_MAX: Final = -8
"""From glibc's <malloc.h>."""


def share_one_heap() -> None:
    """Lets all threads of this process allocate from one heap; has no effect without glibc.

    Otherwise each thread gets a heap of its own, whose free memory the other threads cannot use: eight megabytes at a
    party. The threads seldom allocate at the same time. To be called before a second thread starts.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_ARENA_MAX, 1)


def peak_memory_bytes() -> int:
    """The most resident memory that this process has had; 0 if the system does not tell."""
    # Only without /proc, because ru_maxrss also counts the memory of the process that started this one.
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
