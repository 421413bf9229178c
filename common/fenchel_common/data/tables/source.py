"""From a path that a person gives to a shard: a table, a shard.toml, or a folder with either."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.declaration import DECLARATION_FILE, Declaration
from fenchel_common.data.tables.files import files_of, identity_of
from fenchel_common.data.tables.guess import guessed
from fenchel_common.data.tables.profile import TableProfile
from fenchel_common.data.tables.raw import RawTable, complete
from fenchel_common.data.tables.readers import SUFFIXES, format_of, reader_of
from fenchel_common.errors import InvalidInput

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A table, and its declaration if there is one; `path` may be a folder or a pattern of Parquet files."""

    path: Path
    declaration: Declaration | None

    @classmethod
    def find(cls, path: Path) -> "TableFile":
        """The table that a path means: a table, a declaration, or a folder with one of them.

        The declaration of a table is the file shard.toml beside it, if its `file` names the table.
        """
        if path.is_dir():
            path = _in_folder(path)
        if path.suffix.lower() == ".toml":
            declaration = Declaration.from_toml(path)
            return cls(_existing(path.parent / declaration.file), declaration)
        beside = _existing(path).parent / DECLARATION_FILE
        if beside.is_file():
            declaration = Declaration.from_toml(beside)
            if (beside.parent / declaration.file).resolve() == path.resolve():
                return cls(path, declaration)
        return cls(path, None)

    def profile(self, blank: Declaration | None = None) -> TableProfile:
        """What is in the table. `blank` says how the file is to be read, if there is no declaration."""
        chosen = self.declaration or blank or self.blank()
        with _unchanged(self.path):
            return reader_of(self.path, chosen.format).profile(self.path, chosen)

    def columns(self, declaration: Declaration) -> tuple[str, ...] | None:
        """The names of all columns; None for a format that is a matrix with ids of its own."""
        with _unchanged(self.path):
            return reader_of(self.path, declaration.format).columns(self.path, declaration)

    def read(self, declaration: Declaration) -> RawTable:
        """The cells that a declaration uses."""
        with _unchanged(self.path):
            return reader_of(self.path, declaration.format).read(self.path, declaration)

    def blank(self) -> Declaration:
        """A declaration that says nothing of the columns."""
        return Declaration(file=self.path.name, format=format_of(self.path, None).name)


@dataclass(frozen=True, slots=True)
class LoadedShard:
    """A shard, and for its owner what was guessed, and cautions: rows dropped, suspicious columns.

    Neither shows a cell or an id.
    """

    shard: Shard
    guesses: tuple[str, ...]
    cautions: tuple[str, ...]


def load_shard(path: Path) -> LoadedShard:
    """The shard that a path means; `InvalidInput` or `Refusal` says what is wrong, where, and what to do."""
    table = TableFile.find(path)
    guesses: list[str] = []
    with _unchanged(table.path):
        declaration = table.declaration
        if declaration is None:
            declaration = table.blank()
            # An NPZ file was written for this purpose, so that there is nothing to guess.
            if declaration.format != "npz":
                declaration, guesses = guessed(table.profile())
        raw = reader_of(table.path, declaration.format).read(table.path, declaration)
    shard, cautions = complete(raw, declaration)
    return LoadedShard(shard, tuple(guesses), tuple(cautions))


class WatchedTable(Generic[T]):
    """The table that a path means, for whoever reads it again once it has changed; `load` reads it."""

    def __init__(self, path: Path, load: Callable[[Path], T]) -> None:
        self._path, self._load = path, load
        self._seen: tuple[tuple[int, ...], ...] = ()

    def read(self) -> T:
        """What `load` gives."""
        seen = self._look()
        loaded = self._load(self._path)
        self._seen = seen
        return loaded

    def newer(self) -> T | None:
        """The same, if the table or its declaration has changed since it was last read; else None."""
        return None if self._look() == self._seen else self.read()

    def _look(self) -> tuple[tuple[int, ...], ...]:
        path, table = self._path, TableFile.find(self._path).path
        declared = [file for file in (path, path / DECLARATION_FILE, path.parent / DECLARATION_FILE) if file.is_file()]
        return tuple(seen for file in (table, *declared) for seen in identity_of(file))


@contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    """Refuses what was read of a file that changed meanwhile, and any error that the change may have caused."""
    try:
        before = identity_of(path)
        try:
            yield
        finally:
            if identity_of(path) != before:
                raise InvalidInput(
                    f"{path}: changed while it was read; wait until it is whole, or copy it and give the copy"
                )
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None


def _existing(path: Path) -> Path:
    files_of(path)
    return path


def _in_folder(folder: Path) -> Path:
    if (folder / DECLARATION_FILE).is_file():
        return folder / DECLARATION_FILE
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if len(tables) != 1:
        found = "no table" if not tables else f"{len(tables)} tables"
        raise InvalidInput(f"{folder}: has no {DECLARATION_FILE} and {found}; name the file")
    return tables[0]
