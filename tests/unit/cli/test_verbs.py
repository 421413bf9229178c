"""The `fenchel` command loads what its verb needs, and no more."""

import os
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
            {
                "prometheus_client",
                "fenchel_server",
                "scipy.special",
                "sklearn",
                "docker",
                "pyarrow",
                "fenchel_deploy.cli.server",
            },
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


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_linear_algebra_uses_one_core_unless_the_operator_says_otherwise(given: str | None, used: str) -> None:
    script = (
        "import os, sys\n"
        "from fenchel_deploy.cli import main\n"
        "assert 'numpy' not in sys.modules, 'OpenBLAS reads the variable when it is loaded'\n"
        "try: main()\n"
        "finally: print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    command = [sys.executable, "-c", script, "client", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ran.stderr.split() == [used]
