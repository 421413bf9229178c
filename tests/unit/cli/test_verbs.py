"""The `fenchel` command loads what its verb needs, and no more."""

import subprocess
import sys

import pytest

from fenchel_deploy.cli import VERBS


def modules_after(*words: str) -> set[str]:
    """What a process has imported once it has printed the help of a command."""
    script = (
        "import sys\n"
        "from fenchel_deploy.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


@pytest.mark.parametrize(
    ("verb", "foreign"),
    [
        (
            "client",
            {"prometheus_client", "fenchel_server", "sklearn", "docker", "pyarrow", "fenchel_deploy.cli.server"},
        ),
        ("server", {"prometheus_client", "fenchel_client", "phe", "sklearn", "docker", "fenchel_deploy.cli.client"}),
        ("health", {"numpy", "scipy", "fenchel_server"}),
    ],
)
def test_a_long_running_verb_does_not_carry_the_others(verb: str, foreign: set[str]) -> None:
    assert not modules_after(verb, "--help") & foreign


def test_the_help_lists_every_verb() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "fenchel_deploy", "--help"], capture_output=True, text=True, check=True
    )
    assert all(f" {verb} " in shown.stdout for verb in VERBS)
