"""The memory of this process."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory_bytes() -> int:
    """The most resident memory that this process has had; 0 if the system does not tell."""
    # Only without /proc, because ru_maxrss also counts the memory of the process that started this one.
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
