"""CPU seconds of processes, read from outside."""

import subprocess
import sys
import time

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_deploy.bench import processes
from fenchel_deploy.bench.processes import check_measurable, cpu_seconds

WORK_S = 0.2
TICK_S = 0.05
"""More than the step in which the system tells CPU times, for user and system time of two processes."""
WORKS = f"import time\nwhile time.process_time() < {WORK_S}: pass\nprint('done', flush=True)\ninput()\n"
STARTS_ANOTHER = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {WORKS!r}])\n"


@pytest.mark.parametrize("source", [WORKS, STARTS_ANOTHER], ids=["itself", "its child"])
def test_the_cpu_time_of_a_process_and_of_its_running_children_counts(source: str) -> None:
    command = [sys.executable, "-c", source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "done\n"
        spent_s = cpu_seconds([process.pid])
        process.stdin.write("\n")
    assert spent_s >= WORK_S - TICK_S


def test_the_cpu_time_of_an_ended_child_counts_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ANOTHER + "print('over', flush=True)\nsys.stdin.read()\n"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "done\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "over\n"
        assert cpu_seconds([process.pid]) >= WORK_S - TICK_S
        process.stdin.close()


def test_a_process_that_is_not_there_has_no_cpu_time() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert cpu_seconds([process.pid]) == 0.0
    assert cpu_seconds([]) == 0.0


def test_a_system_without_proc_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_measurable()
    monkeypatch.setattr(processes, "PROC", processes.PROC / str(time.monotonic_ns()))
    with pytest.raises(InvalidInput, match="use Linux"):
        check_measurable()
