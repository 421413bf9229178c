"""The readers, by format. A new format is a module with a `READER`, and a line in the table here."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration
from fenchel_common.data.tables.files import PARQUET, files_of, is_many
from fenchel_common.data.tables.profile import TableProfile
from fenchel_common.data.tables.raw import RawTable
from fenchel_common.errors import InvalidInput

EXTRA: Final = "pip install 'fenchel[tables]'"


class Reader(Protocol):
    """Reads files of one format. All methods raise `InvalidInput` with file, row, column and cure, and no cell."""

    def columns(self, path: Path, declaration: Declaration) -> tuple[str, ...] | None:
        """The names of all columns; None for a format that is a matrix with ids of its own."""

    def read(self, path: Path, declaration: Declaration) -> RawTable:
        """The cells that the declaration uses."""

    def profile(self, path: Path, declaration: Declaration) -> TableProfile:
        """What is in the file; of the declaration, only what concerns the file as a whole is looked at."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files, and the module that reads it: imported only where such a file is read."""

    name: str
    suffixes: tuple[str, ...]
    module: str


FORMATS: Final = (
    FileFormat("csv", (".csv", ".tsv"), "csvfile"),
    FileFormat("parquet", PARQUET, "parquet"),
    FileFormat("libsvm", (".libsvm", ".svm", ".svmlight"), "libsvm"),
    FileFormat("npz", (".npz",), "npz"),
)
SUFFIXES: Final = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def format_of(path: Path, named: str | None) -> FileFormat:
    """The format by its name in shard.toml, or else by the suffix of the file; that of many files is Parquet."""
    suffix = files_of(path)[0].suffix.lower() if is_many(path) else path.suffix.lower()
    for known in FORMATS:
        if known.name == named or (named is None and suffix in known.suffixes):
            if is_many(path) and known.suffixes != PARQUET:
                raise InvalidInput(f"{path}: {known.name} tables are one file; only Parquet tables can be many")
            return known
    names = ", ".join(known.name for known in FORMATS)
    if named is not None:
        raise InvalidInput(f"{DECLARATION_FILE}: format = {named!r} is unknown; use one of {names}")
    raise InvalidInput(
        f"{path}: the format is not known by the end of the name ({', '.join(SUFFIXES)}); rename the file, or write "
        f'format = "…" into {DECLARATION_FILE}: one of {names}'
    )


def reader_of(path: Path, named: str | None) -> Reader:
    """The reader of a file."""
    found = format_of(path, named)
    try:
        reader: Reader = import_module(f"fenchel_common.data.tables.{found.module}").READER
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"{path}: {found.name} files need the Python package {error.name}, which is not installed here; {EXTRA}"
        ) from None
    return reader
