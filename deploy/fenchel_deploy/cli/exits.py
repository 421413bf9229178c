"""The exit codes of the `fenchel` command. `manual` says what each means for a command, docs/commands.md for all."""

from enum import IntEnum

from fenchel_common.errors import (
    DataUnfit,
    FenchelError,
    IdentityError,
    RecordConflict,
    RunLocked,
    StateInUse,
    StoreError,
    TransientError,
    UnknownRun,
)


class ExitCode(IntEnum):
    """One code for each class of ends; a process that a signal ends has 128 plus the number of the signal."""

    DONE = 0
    MISSED = 1
    REFUSED = 2
    STATE = 3
    UNKNOWN_RUN = 4
    CONFLICT = 5
    IDENTITY = 6
    DATA_UNFIT = 7
    EXHAUSTED = 8
    INTERNAL = 70
    INTERRUPTED = 130
    TERMINATED = 143


def code_of(error: FenchelError) -> ExitCode:
    """The exit code of a command that an error ends."""
    match error:
        case UnknownRun():
            return ExitCode.UNKNOWN_RUN
        case RecordConflict():
            return ExitCode.CONFLICT
        case StoreError() | StateInUse():
            return ExitCode.STATE
        case IdentityError():
            return ExitCode.IDENTITY
        case DataUnfit():
            return ExitCode.DATA_UNFIT
        case TransientError() | RunLocked():
            return ExitCode.MISSED
        case _:
            return ExitCode.REFUSED
