"""The memory of a party's process."""

import ctypes
import platform
import subprocess
import sys

import pytest

from fenchel_common.processmemory import keep_heaps_small

HEAPS = """
import ctypes, sys, threading
from fenchel_common.processmemory import keep_heaps_small
if sys.argv[1] == "shared":
    keep_heaps_small(heaps=1)
there = threading.Barrier(3, timeout=30)
def allocate():
    block = bytearray(100_000)
    there.wait()
    del block
threads = [threading.Thread(target=allocate) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
stdout = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, stdout)
libc.fflush(stdout)
"""
"""Prints glibc's description of its heaps after three threads have allocated at the same time."""


LONG_BLOCKS = """
import sys
from fenchel_common.processmemory import keep_heaps_small
if sys.argv[1] == "given back":
    keep_heaps_small(heaps=1)
bytearray(24 << 20)  # glibc takes blocks up to this size from a heap from now on
blocks, small = [], []
for _ in range(20):
    blocks.append(bytearray(4 << 20))
    small.append(bytearray(1000))
del blocks
status = open("/proc/self/status").read().split()
print(int(status[status.index("VmRSS:") + 1]) // 1024)
"""
"""Prints the MiB in memory after 80 MiB in long blocks, with short ones between them, have been freed."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
@pytest.mark.parametrize("way", ["given back", "kept"])
def test_long_blocks_are_given_back_when_they_are_freed(way: str) -> None:
    command = [sys.executable, "-c", LONG_BLOCKS, way]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (int(ran.stdout) > 80) == (way == "kept")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives a thread a heap of its own")
@pytest.mark.parametrize(("way", "heaps"), [("shared", {1}), ("apart", {2, 3, 4})])
def test_threads_keep_heaps_small_after_the_call(way: str, heaps: set[int]) -> None:
    ran = subprocess.run([sys.executable, "-c", HEAPS, way], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.count("<heap nr=") in heaps


def test_a_system_without_the_setting_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_heaps_small(heaps=1)
