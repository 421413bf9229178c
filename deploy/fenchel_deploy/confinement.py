"""Keeps other processes from reading the memory of this one, which has keys in it."""

import ctypes
import resource
import sys

PR_SET_DUMPABLE = 4
"""From Linux's <linux/prctl.h>."""


def keep_memory_private() -> None:
    """Forbids core dumps of this process and of those that it starts.

    On Linux it also marks this process as not dumpable. This covers core dumps that go to a program, for which there
    is no size limit, and it keeps other processes of the same user from reading its memory. It does not keep out root.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
