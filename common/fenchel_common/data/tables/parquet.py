"""Parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fenchel_common.data.tables.arrowtable import ArrowReader, ArrowSource
from fenchel_common.data.tables.declaration import Declaration
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


class ParquetReader(ArrowReader):
    """Reads .parquet files."""

    def options(self, path: Path, declaration: Declaration) -> Declaration:  # noqa: ARG002 - a Parquet file says all
        return declaration

    def open(self, path: Path, declaration: Declaration) -> ArrowSource:  # noqa: ARG002 - of the interface
        return ParquetSource(path)


READER = ParquetReader()
