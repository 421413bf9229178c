"""Makes the Python code of the wire contract from `proto/`, or checks that the kept code is fresh.

python proto/generate.py            writes common/fenchel/
python proto/generate.py --check    exits 1 and names each file that is stale, missing or left over

Either way a field without visibility or meaning (see visibility.proto) is named, and nothing is written.
"""

import argparse
import filecmp
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
GENERATED = ROOT / "common" / "fenchel"
PACKAGE = "fenchel.v1"

NEEDS_WORDS = (1, 2, 4, 5)
"""The classes of `Visibility` but PUBLIC and TRANSPORT, by number: the generated code may not be there yet."""


def generate(destination: Path) -> None:
    """Writes `destination/fenchel/v1/*_pb2*` from every `.proto` file."""
    scripts = Path(sys.executable).parent
    _compile(
        SOURCES,
        f"--python_out={destination}",
        f"--grpc_python_out={destination}",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"--mypy_out=quiet:{destination}",
        f"--mypy_grpc_out=quiet:{destination}",
    )


def undeclared_fields(sources: Path) -> list[str]:
    """The fields without a visibility, or without a meaning that they need, each with the missing declaration."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "descriptors"
        _compile(sources, "--include_imports", f"--descriptor_set_out={path}")
        files = FileDescriptorSet.FromString(path.read_bytes()).file
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    names = [f"{PACKAGE}.{message.name}" for file in files if file.package == PACKAGE for message in file.message_type]
    fields = [field for name in names for field in _fields(pool.FindMessageTypeByName(name))]
    return [f"{field.full_name}: {lack}" for field in fields if (lack := _lack(field, pool))]


def _fields(message: Descriptor) -> Iterator[FieldDescriptor]:
    yield from message.fields
    for nested in message.nested_types:
        yield from _fields(nested)


def _lack(field: FieldDescriptor, pool: DescriptorPool) -> str:
    # In a pool of its own an option is known by its name; field.GetOptions() has it as unknown bytes.
    kind = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    options = kind.FromString(field.GetOptions().SerializeToString())
    declared = {option.name: value for option, value in options.ListFields()}
    if not (visibility := declared.get("visibility")):
        return "has no visibility"
    if visibility in NEEDS_WORDS and not declared.get("meaning"):
        return "does not say in words what its values are (meaning)"
    return ""


def _compile(sources: Path, *options: str) -> None:
    files = sorted(str(path.relative_to(sources)) for path in sources.rglob("*.proto"))
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={sources}", *options, *files], check=True)


def stale_files() -> list[str]:
    """The kept files that differ from what the sources give today, with the reason."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = {path.relative_to(scratch) for path in Path(scratch).rglob("*_pb2*.py*")}
        found = {path.relative_to(GENERATED.parent) for path in GENERATED.rglob("*_pb2*.py*")}
        kept = {path for path in found if path.suffix != ".pyc"}
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
    check = parser.parse_args().check
    undeclared = undeclared_fields(SOURCES)
    for problem in undeclared:
        sys.stderr.write(f"{problem}; see proto/fenchel/v1/visibility.proto\n")
    if undeclared:
        return 1
    if not check:
        generate(GENERATED.parent)
        return 0
    problems = stale_files()
    for problem in problems:
        sys.stderr.write(f"{problem}; run `make proto`\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
