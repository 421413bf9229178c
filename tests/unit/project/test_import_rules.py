"""Who may import whom, and that the generated code is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
IMPORT_ALL_OF_THE_SERVER = """
import importlib, pkgutil, sys
import fenchel_common, fenchel_server
for package in (fenchel_common, fenchel_server):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
print("\\n".join(sys.modules))
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def test_nothing_that_can_decrypt_is_loaded_by_the_server() -> None:
    result = run("-W", "error", "-c", IMPORT_ALL_OF_THE_SERVER)
    assert result.returncode == 0, result.stderr
    loaded = {name.split(".")[0] for name in result.stdout.split()}
    assert "fenchel_server" in loaded
    assert not loaded & {"phe", "fenchel_client", "fenchel_deploy"}


def test_the_import_contracts_are_kept() -> None:
    result = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("package", "statement"),
    [
        ("common/fenchel_common", "import fenchel_server"),
        ("common/fenchel_common", "import phe"),
        ("server/fenchel_server", "from fenchel_client.crypto import keys"),
        ("client/fenchel_client", "import fenchel_server"),
        ("server/fenchel_server", "import fenchel_deploy"),
    ],
)
def test_the_import_contracts_would_catch_a_breach(package: str, statement: str, tmp_path: Path) -> None:
    """The same contracts over a copy of the tree in which one module breaks a rule."""
    for folder in ("common", "server", "client", "deploy"):
        for source in (ROOT / folder).rglob("*.py"):
            copy = tmp_path / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    (tmp_path / package / "breach.py").write_text(f"{statement}\n")
    paths = ":".join(str(tmp_path / folder) for folder in ("common", "server", "client", "deploy"))
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--config",
            str(ROOT / "pyproject.toml"),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "breach" in result.stdout


def test_the_generated_code_is_fresh() -> None:
    result = run("proto/generate.py", "--check")
    assert result.returncode == 0, result.stderr
