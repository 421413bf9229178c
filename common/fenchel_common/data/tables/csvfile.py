"""CSV files, in UTF-8 or another declared encoding."""

import codecs
import csv
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as arrow_csv

from fenchel_common.data.tables.arrowtable import ArrowReader, ArrowSource
from fenchel_common.data.tables.declaration import DECLARATION_FILE, CsvOptions, Declaration
from fenchel_common.errors import InvalidInput

DELIMITERS: Final = ",;\t|"
BLOCK_BYTES: Final = 1 << 22
MAX_BLOCK_BYTES: Final = 1 << 30
"""A file whose header alone is longer is none."""


class CsvSource(ArrowSource):
    """The cells of a CSV file as text."""

    def __init__(self, path: Path, options: CsvOptions) -> None:
        self._path, self._options = path, options
        self._header, header_bytes = _read_header(path, options)
        self._block_bytes = min(max(BLOCK_BYTES, 4 * header_bytes), MAX_BLOCK_BYTES)
        super().__init__(str(path), _column_names(path, self._header))

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        written = dict(zip(self.columns, self._header, strict=True))
        try:
            yield from self._open([written[name] for name in columns], use_threads=True)
        except pa.ArrowInvalid as error:
            raise self._explained(str(error), [written[name] for name in columns]) from None
        except (UnicodeDecodeError, LookupError):
            raise _encoding_error(self._path, self._options) from None

    def _open(self, columns: list[str], *, use_threads: bool, on_bad_row: Any = None) -> Any:
        """The reader of these columns. Rows are numbered for `on_bad_row` only without threads."""
        # The reader takes names from the header only if it has them all once: so it is given names by position.
        names = [str(position) for position in range(len(self._header))]
        wanted = [str(self._header.index(name)) for name in columns]
        return arrow_csv.open_csv(
            str(self._path),
            read_options=arrow_csv.ReadOptions(
                use_threads=use_threads,
                block_size=self._block_bytes,
                column_names=names,
                skip_rows_after_names=1,
                encoding=self._options.encoding,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._options.delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True,
                null_values=self._options.missing_values,
            ),
        )

    def _explained(self, reason: str, columns: list[str]) -> InvalidInput:
        """What Arrow found, without the cells that its message quotes."""
        # Arrow looks at the number of cells first, and can hand over no row whose text it cannot decode.
        if "UTF8" in reason or "UTF-8" in reason or _undecodable_line(self._path, self._options) is not None:
            return _encoding_error(self._path, self._options)
        found: list[Any] = []

        def keep(row: Any) -> str:
            found.append(row)
            return "error"

        try:
            for _ in self._open(columns, use_threads=False, on_bad_row=keep):
                pass
        except pa.ArrowInvalid:
            pass
        if found:
            row = found[0]
            return InvalidInput(
                f"{self._path}: row {row.number - 1}: has {row.actual_columns} cells, but the header has "
                f"{row.expected_columns}; put cells with the delimiter or a line break into quotation marks"
            )
        return InvalidInput(
            f"{self._path}: not readable as CSV; a quotation mark that is opened and never closed is the usual cause"
        )


class CsvReader(ArrowReader):
    """Reads .csv and .tsv files."""

    def options(self, path: Path, declaration: Declaration) -> Declaration:
        if declaration.csv.delimiter is not None:
            return declaration
        delimiter = "\t" if path.suffix.lower() == ".tsv" else _found_delimiter(path, declaration.csv)
        return declaration.model_copy(update={"csv": declaration.csv.model_copy(update={"delimiter": delimiter})})

    def open(self, path: Path, declaration: Declaration) -> ArrowSource:
        return CsvSource(path, declaration.csv)


def _read_header(path: Path, options: CsvOptions) -> tuple[list[str], int]:
    """The cells of the first row, and how many bytes it takes."""
    encoding = "utf-8-sig" if codecs_name(options.encoding) == "utf-8" else options.encoding
    try:
        with path.open(encoding=encoding, newline="") as file:
            lines: list[str] = []

            def watched() -> Iterator[str]:
                for line in file:
                    lines.append(line)
                    yield line

            header = next(csv.reader(watched(), delimiter=options.delimiter or ","), [])
    except (UnicodeError, LookupError):
        raise _encoding_error(path, options) from None
    except csv.Error:
        raise InvalidInput(f"{path}: row 1, the header, is not readable as CSV") from None
    return header, 4 * sum(len(line) for line in lines)


def codecs_name(encoding: str) -> str:
    """Python's own name of an encoding, or the name as it is if Python does not know it."""
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return encoding


def _column_names(path: Path, header: Sequence[str]) -> list[str]:
    if not header:
        raise InvalidInput(f"{path}: is empty; its first row must have the names of the columns")
    if len(header) > 1 and all(_is_number(cell) for cell in header):
        raise InvalidInput(f"{path}: the first row has numbers; put a row with the names of the columns above it")
    names = [
        unicodedata.normalize("NFC", cell).strip() or f"column {position}" for position, cell in enumerate(header, 1)
    ]
    seen: dict[str, int] = {}
    for position, name in enumerate(names, 1):
        if seen.setdefault(name, position) != position:
            raise InvalidInput(
                f"{path}: columns {seen[name]} and {position} have the same name {name!r}; give each its own"
            )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _found_delimiter(path: Path, options: CsvOptions) -> str:
    """The delimiter that cuts the header into most cells."""
    return max(
        DELIMITERS,
        key=lambda mark: len(_read_header(path, options.model_copy(update={"delimiter": mark}))[0]),
    )


def _encoding_error(path: Path, options: CsvOptions) -> InvalidInput:
    """Says in which line of the file the text is not of its encoding, and which encodings are likely."""
    with path.open("rb") as file:
        start = file.read(4)
        likely = "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
    line = _undecodable_line(path, options) or 1
    where = "the header" if line == 1 else f"line {line}"
    return InvalidInput(
        f"{path}: {where}: is not text in {options.encoding}; save the file as UTF-8, or write "
        f'encoding = "{likely}" under [csv] in {DECLARATION_FILE} (`fenchel data init FILE --encoding {likely}`)'
    )


def _undecodable_line(path: Path, options: CsvOptions) -> int | None:
    """The first line, counted from 1, that is not text in the file's encoding."""
    try:
        decoder = codecs.getincrementaldecoder(options.encoding)()
    except LookupError:
        return 1
    number = 0
    try:
        with path.open("rb") as file:
            for line in file:
                number += 1
                decoder.decode(line)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return number
    return None


READER = CsvReader()
