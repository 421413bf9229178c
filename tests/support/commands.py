"""The `fenchel` command in this process, as a person runs it."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from fenchel_deploy.cli import main


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    exit_code: int
    stdout: str
    stderr: str


def run_fenchel(*words: object) -> Ended:
    """Runs a command line to its end."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["fenchel", *map(str, words)]),
        patch("fenchel_deploy.cli.keep_memory_private"),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())
