"""The end of a command by a signal, or with the program that started it."""

import os
import signal
import sys
import threading
from types import FrameType


def exit_on(*numbers: signal.Signals) -> None:
    """Makes these signals end the process by `SystemExit`, so that clean-up code runs; exit code 128 + signal."""
    for number in numbers:
        signal.signal(number, _exit)


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)


def end_with_input() -> None:
    """Ends this process as SIGTERM does, once its standard input has ended.

    A program that starts this one keeps a pipe to it open: the pipe ends with the program, however that ends.
    """

    def follow() -> None:
        # Not by sys.stdin: a reader that holds its lock while the interpreter ends would abort the process.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="input", daemon=True).start()
