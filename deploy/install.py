"""Installs Fenchel and its dependencies into a virtual environment, and checks every file by its hash.

    python3 deploy/install.py VENV [--extra NAME]… [--group NAME]…

pyproject.toml says which packages, constraints.txt which versions and which files: a package that is not in it, or a
file of another hash, is refused. The installer, pip, and the build backend are pinned in the same way; they live in a
temporary folder and are not left in VENV. This script needs Python 3.11 or newer and nothing else.
"""

import argparse
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
HASHED = ("--require-hashes", "--constraint", str(CONSTRAINTS))


def main() -> None:
    parser = argparse.ArgumentParser(description="Install Fenchel with the pinned versions of its dependencies.")
    parser.add_argument("venv", type=Path, help="the virtual environment, made if it is not there")
    parser.add_argument("--extra", action="append", default=[], help="an optional part of Fenchel, such as full")
    parser.add_argument("--group", action="append", default=[], help="a group of pyproject.toml, such as dev")
    itself = parser.add_mutually_exclusive_group()
    itself.add_argument("--dependencies-only", action="store_true", help="leave Fenchel itself out")
    itself.add_argument("--editable", action="store_true", help="run Fenchel from its source tree; needs --group build")
    itself.add_argument("--target", type=Path, help="put Fenchel itself into this folder instead of VENV")
    options = parser.parse_args()
    python = options.venv / "bin" / "python"
    if not python.exists():
        venv.create(options.venv, symlinks=True)
    with tempfile.TemporaryDirectory(prefix="fenchel-install-") as scratch:
        pip = _pinned_pip(Path(scratch))
        into = [*pip, "--python", str(python), "install", "--quiet"]
        named = Path(scratch) / "requirements.txt"
        named.write_text("\n".join(_dependencies(options.extra)))
        groups = [word for group in options.group for word in ("--group", f"{ROOT / 'pyproject.toml'}:{group}")]
        _run([*into, *HASHED, "--requirement", str(named), *groups])
        if options.editable:
            _run([*into, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
        elif not options.dependencies_only:
            wheels = Path(scratch) / "wheels"
            _run([*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)])
            target = ["--target", str(options.target)] if options.target else []
            _run([*into, "--no-deps", *target, *(str(wheel) for wheel in wheels.iterdir())])


def _pinned_pip(scratch: Path) -> list[str]:
    """The command of a pip of the pinned version, beside the build backend.

    Older versions of pip take hashes from requirements alone, not from constraints. Therefore the one that comes with
    Python only installs the pinned one.
    """
    venv.create(scratch / "tools", with_pip=True, symlinks=True)
    pip = [str(scratch / "tools" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    itself = scratch / "pip.txt"
    itself.write_text(_entry("pip"))
    _run([*pip, "install", "--quiet", "--require-hashes", "--requirement", str(itself)])
    _run([*pip, "install", "--quiet", *HASHED, "--group", f"{ROOT / 'pyproject.toml'}:build"])
    return pip


def _entry(name: str) -> str:
    """The lines of constraints.txt on a package: its version, and the hashes on the lines that follow."""
    lines = CONSTRAINTS.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{name}=="))
    end = next(number for number, line in enumerate(lines[start:], start) if not line.endswith("\\"))
    return "\n".join(lines[start : end + 1])


def _dependencies(extras: Sequence[str]) -> list[str]:
    """The packages that Fenchel needs with these extras; an extra may name others, as fenchel[first,second]."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = list(project["dependencies"])
    pending = list(extras)
    while pending:
        for line in project["optional-dependencies"][pending.pop()]:
            if line.startswith("fenchel["):
                pending += line.removeprefix("fenchel[").removesuffix("]").split(",")
            else:
                found.append(line)
    return found


def _run(command: Sequence[str]) -> None:
    code = subprocess.run(command, check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
