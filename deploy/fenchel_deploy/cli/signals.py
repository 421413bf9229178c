"""The end of a command by a signal."""

import signal
import sys
from types import FrameType


def exit_on(*numbers: signal.Signals) -> None:
    """Makes these signals end the process by `SystemExit`, so that clean-up code runs; exit code 128 + signal."""
    for number in numbers:
        signal.signal(number, _exit)


def _exit(signum: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signum)
