"""Shell completion, in a real bash."""

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fenchel_common.ids import RunId
from fenchel_server.store import SqliteStore

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")

SCRIPT = """
{completion}
COMP_WORDS=({words})
COMP_CWORD=$(({count} - 1))
_fenchel_completion fenchel
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(script: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return ran.stdout


@cache
def completion() -> str:
    # With a second command: bash would put the last one in its own place, and typer asks which shell its parent is.
    return bash("fenchel --show-completion; true")


def completions(*words: str) -> set[str]:
    """What bash offers for the last of these words."""
    quoted = " ".join(shlex.quote(word) for word in words)
    return set(bash(SCRIPT.format(completion=completion(), words=quoted, count=len(words))).split())


def test_a_shell_completes_commands_and_options() -> None:
    assert completions("fenchel", "pr") == {"provision", "preflight", "predict"}
    assert completions("fenchel", "runs", "s") == {"show", "stop", "submit"}
    assert "--approve-roster" in completions("fenchel", "client", "--a")


def test_a_shell_completes_values() -> None:
    assert completions("fenchel", "algorithms", "scaffp") == {"scaffpd"}
    assert completions("fenchel", "demo", "--privacy", "s") == {"sealed"}


def test_a_shell_completes_runs_of_the_state_folder_on_the_line(tmp_path: Path) -> None:
    with SqliteStore.serve(tmp_path) as store:
        store.create_run(RunId("run-1"), name="retrospective", config="{}")
    assert completions("fenchel", "runs", "show", "--state", str(tmp_path), "r") == {"run-1", "retrospective"}
    assert completions("fenchel", "runs", "show", "r") == set()
