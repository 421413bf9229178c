"""Names of the things that a federation speaks about."""

from typing import NewType

ClientId = NewType("ClientId", str)
"""A party's name, which is the common name of its certificate."""

RunId = NewType("RunId", str)
"""One training job."""

RoundId = NewType("RoundId", int)
"""A round of a run; 0 is the set-up, training rounds count from 1."""
