"""A party's process for tests: `python -m support.party KIT PORT`.

What it does depends on how the phase's name begins: `echo` gives the body back, `size` the body's length, `blob` as
many bytes as the body says, `hang` nothing, ever, and `memory` the peak of this process's resident memory in bytes.
Numbers are in decimal.
"""

import sys
import threading
from pathlib import Path

from fenchel_client.session import Session
from fenchel_client.task import Task
from fenchel_client.transport.dial import GrpcDial
from fenchel_common.identity import Address, Kit


def peak_memory_bytes() -> int:
    """The highest resident memory of this process so far."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def handle(task: Task) -> bytes:
    if task.phase == "hang":
        threading.Event().wait()
    if task.phase.startswith("memory"):
        return str(peak_memory_bytes()).encode()
    if task.phase.startswith("blob"):
        return b"x" * int(task.body)
    if task.phase.startswith("size"):
        return str(len(task.body)).encode()
    return task.body


if __name__ == "__main__":
    Session(Kit.load(Path(sys.argv[1])), handle, dial=GrpcDial(Address("localhost", int(sys.argv[2])))).run()
