"""Makes the Python code of the wire contract from `proto/`, or checks that what is kept is fresh.

python proto/generate.py            writes common/fenchel/
python proto/generate.py --check    exits 1 and names each file that is stale, missing or left over
"""

import argparse
import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
GENERATED = ROOT / "common" / "fenchel"


def generate(destination: Path) -> None:
    """Writes `destination/fenchel/v1/*_pb2*` from every `.proto` file."""
    files = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    scripts = Path(sys.executable).parent
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--proto_path={SOURCES}",
            f"--python_out={destination}",
            f"--grpc_python_out={destination}",
            f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
            f"--mypy_out=quiet:{destination}",
            f"--mypy_grpc_out=quiet:{destination}",
            *files,
        ],
        check=True,
    )


def stale_files() -> list[str]:
    """The kept files that differ from what the sources give today, with the reason."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = {path.relative_to(scratch) for path in Path(scratch).rglob("*_pb2*.py*")}
        kept = {path.relative_to(GENERATED.parent) for path in GENERATED.rglob("*_pb2*.py*")}
        problems = [f"{name}: missing" for name in sorted(fresh - kept)]
        problems += [f"{name}: no source makes it" for name in sorted(kept - fresh)]
        problems += [
            f"{name}: stale"
            for name in sorted(fresh & kept)
            if not filecmp.cmp(Path(scratch) / name, GENERATED.parent / name, shallow=False)
        ]
        return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    if not parser.parse_args().check:
        generate(GENERATED.parent)
        return 0
    problems = stale_files()
    for problem in problems:
        sys.stderr.write(f"{problem}; run `make proto`\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
