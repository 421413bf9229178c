"""The files of a table: one, or many Parquet files in a folder or of a pattern."""

import os
from pathlib import Path
from typing import Final

from fenchel_common.errors import InvalidInput

PARQUET: Final = (".parquet", ".pq")
WILD: Final = frozenset("*?[")


def is_many(path: Path) -> bool:
    """Whether the path is a folder, or a pattern with * or ?, instead of one file."""
    return path.is_dir() or (not path.exists() and bool(WILD & set(str(path))))


def files_of(path: Path) -> tuple[Path, ...]:
    """The files of the table, in the order of their names, which is the order of their rows."""
    if not is_many(path):
        if not path.exists():
            raise InvalidInput(f"{path}: there is no such file")
        return (path,)
    if path.is_dir():
        found = [file for file in path.iterdir() if file.suffix.lower() in PARQUET]
    else:
        first = next(number for number, part in enumerate(path.parts) if WILD & set(part))
        found = list(Path(*path.parts[:first]).glob(str(Path(*path.parts[first:]))))
    if not found:
        raise InvalidInput(f"{path}: there is no such file; a table of many files has Parquet files")
    return tuple(sorted(found))


def identity_of(path: Path) -> tuple[tuple[int, ...], ...]:
    """What changes when a file of the table changes, comes or goes; `OSError` if it is not there."""
    return tuple(_identity(file.stat()) for file in (files_of(path) if is_many(path) else (path,)))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ino
