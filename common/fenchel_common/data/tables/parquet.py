"""Parquet files: one, or many that are one table."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fenchel_common.data.tables.arrowtable import ArrowReader, ArrowSource
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.files import files_of
from fenchel_common.errors import InvalidInput

BATCH_ROWS: Final = 1 << 16


class ParquetSource(ArrowSource):
    """The columns of a Parquet file, in the types that it has."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, OSError):
            raise InvalidInput(f"{path}: is not a readable Parquet file; write it again") from None
        super().__init__(str(path), self._file.schema_arrow.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        try:
            for batch in self._file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
                yield batch.select(list(columns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            raise InvalidInput(f"{self.name}: is damaged, or has a column of a type that Arrow cannot read") from None


class ParquetSources(ArrowSource):
    """The same columns of many Parquet files. Rows are counted through all files, in the order of their names."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self._files = files
        columns = ParquetSource(files[0]).columns
        for file in files[1:]:
            if set(columns) != set(other := ParquetSource(file).columns):
                differ = min(set(columns) ^ set(other))
                raise InvalidInput(f"{path}: column {differ!r} is in one of {files[0].name} and {file.name} alone")
        super().__init__(str(path), columns)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        for file in self._files:
            yield from ParquetSource(file).batches(columns)


class ParquetReader(ArrowReader):
    """Reads .parquet files, and folders and patterns of such files."""

    def options(self, path: Path, declaration: Declaration) -> Declaration:  # noqa: ARG002 - a Parquet file says all
        return declaration

    def open(self, path: Path, declaration: Declaration) -> ArrowSource:  # noqa: ARG002 - of the interface
        files = files_of(path)
        return ParquetSource(path) if files == (path,) else ParquetSources(path, files)


READER = ParquetReader()
