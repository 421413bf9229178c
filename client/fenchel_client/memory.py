"""How much memory this process takes."""

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory_bytes() -> int:
    """The most resident memory that this process has held; 0 where the system does not tell."""
    # Where there is no /proc. Elsewhere this figure would count what the process held that this one was started from.
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
