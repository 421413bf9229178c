"""The memory of this process, and how glibc's heaps keep it."""

import ctypes
import resource
from pathlib import Path
from typing import Final

STATUS = Path("/proc/self/status")
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""From glibc's <malloc.h>."""
LONG_BLOCK_BYTES: Final = 1 << 20


def keep_heaps_small(*, heaps: int) -> None:
    """Lets the threads of this process share so many heaps, which give free memory back; no effect without glibc.

    Otherwise each thread gets a heap of its own, whose free memory the other threads cannot use, and a heap grows by
    the long blocks of each size that was ever freed: a server that had the lists of a million samples in its set-up
    kept three times the memory in all rounds. Blocks of a MiB and more are given back at once, and cost the system a
    fresh page for each 4 KiB when the next one is made. To be called before a second thread starts.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_ARENA_MAX, heaps)
        libc.mallopt(M_MMAP_THRESHOLD, LONG_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, LONG_BLOCK_BYTES)


def give_back_free_memory() -> None:
    """Gives free memory inside the heaps back to the system; has no effect without glibc."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def peak_memory_bytes() -> int:
    """The most resident memory that this process has had; 0 if the system does not tell."""
    # Only without /proc, because ru_maxrss also counts the memory of the process that started this one.
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
