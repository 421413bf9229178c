"""Types for the names of parties, runs and rounds."""

import re
from typing import Final, NewType

from fenchel_common.errors import InvalidInput

ClientId = NewType("ClientId", str)
"""A party's name, which is the common name of its certificate."""

RunId = NewType("RunId", str)
"""The name of a run, which is one training job."""

RUN_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""ASCII only, and short: a run's id is part of file names at the server and at every party."""

RoundId = NewType("RoundId", int)
"""The number of a round in its run; 0 is the set-up, training rounds count from 1."""


def check_run_id(run: str) -> None:
    """Refuses a run id that cannot be part of a file name."""
    if RUN_ID_PATTERN.fullmatch(run) is None:
        raise InvalidInput(f"run id {run!r}: use 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first")
