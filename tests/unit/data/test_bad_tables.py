"""Every bad table has a message of its own, with file, row, column and cure, and without a cell or an id."""

import datetime
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fenchel_common.data.tables.csvfile import CsvSource
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput, PermanentError
from support.tablefiles import CLINIC, DECLARED, load, write_table

HIDDEN = "geheim"
NUMBERS = 'file = "table.csv"\nid = "id"\n'


@pytest.mark.parametrize(
    ("text", "toml", "complaint"),
    [
        (f"id,age\n1,4\n2,{HIDDEN}\n", NUMBERS, r"row 2, column 'age': the cell is not a number.*\"category\""),
        ("id,age\n1,4\n2,3,5\n", NUMBERS, r"row 2: has 3 cells, but the header has 2.*quotation marks"),
        ("id,age\n1,4\n2\n", NUMBERS, r"row 2: has 1 cells, but the header has 2"),
        (
            f"id,age\n{HIDDEN},4\n2,3\n{HIDDEN},5\n",
            NUMBERS,
            r"column 'id': rows 1 and 3 have the same id; keep one",
        ),
        ("id,age\n7,4\n007,5\n", NUMBERS, "rows 1 and 2 have the same id"),
        ("id,age\n1,4\n,5\n", NUMBERS, r"row 2, column 'id': the cell is missing, but every row needs an id"),
        ("id\n1\n2\n", NUMBERS, r"no column is a feature; name some under \[features\] in shard.toml"),
        ("id,age\n1,4\n2,\n3,\n", NUMBERS, r"row 2, column 'age': the cell is missing \(missing in this column: 2\)"),
        ("id,age\n1,\n2,\n", NUMBERS, r"column 'age': every cell is missing; add it to leave_out"),
        ("id,age,b\n1,,1\n2,2,\n", 'missing = "drop"\n' + NUMBERS, r"every row has a missing cell.*use \"fill\""),
        ("id,age\n1,4\n2,inf\n", NUMBERS, r"row 2, column 'age': is NaN or infinite.*drop these rows"),
        (
            "id,age\n1,4\n2,=A1*2\n",
            NUMBERS,
            r"row 2, column 'age': the cell begins with \"=\".*export the table",
        ),
        ("id,age\n=B2,4\n2,5\n", NUMBERS, r"row 1, column 'id': the cell begins with \"=\""),
        ("id;age\n1;4\n2;1,5\n", NUMBERS, r"row 2, column 'age': the cell is no number.*decimal = \",\" or thousands"),
        ('id,age\n1,4\n2,"1,500"\n', NUMBERS, r"row 2, column 'age'.*thousands separators; which of them is it\?"),
        ("id,age\n1,4\n2,1'500.5\n", NUMBERS, r"row 2, column 'age'.*thousands separators"),
        ('id,age\n1,"4\n2,3\n', NUMBERS, r"row 1, column 'age': the cell has a line break; close the quotation"),
        ("1,2,3\n4,5,6\n", NUMBERS, r"the first row has numbers; put a row with the names of the columns above"),
        ("id,age,age\n1,2,3\n", NUMBERS, r"columns 2 and 3 have the same name 'age'"),
        ("", NUMBERS, r"is empty; its first row must have the names"),
        ("id,age\n", NUMBERS, "has no rows; give a table with a row for each sample"),
        ("no,age\n1,2\n", NUMBERS, r"has no column 'id', which shard.toml names; its columns are no, age"),
        (
            "id,age\n1,4\n",
            NUMBERS + "[features.bmi]\n",
            r"shard.toml says nothing of column 'age'; add it",
        ),
        ("id,agé\n1,4\n".encode("latin-1"), NUMBERS, r"the header: is not text in utf-8.*encoding = \"latin-1\""),
        ("id,age\n1,4\n2,é\n".encode("latin-1"), NUMBERS, r"line 3: is not text in utf-8.*--encoding latin-1"),
        ("id,age\n1,4\n2,é,3\n".encode("latin-1"), NUMBERS, r"line 3: is not text in utf-8.*--encoding latin-1"),
        ("id,age\n1,4\n".encode("utf-16"), NUMBERS, r"the header: is not text in utf-8.*encoding = \"utf-16\""),
        ("id,age\n1,4\n", NUMBERS + '[csv]\nencoding = "klingon"\n', r"is not text in klingon"),
    ],
)
def test_a_bad_csv_file_is_refused_by_row_and_column(
    tmp_path: Path, text: str | bytes, toml: str, complaint: str
) -> None:
    with pytest.raises(PermanentError, match=complaint) as caught:
        load(tmp_path, text, toml=toml)
    assert str(tmp_path / "table.csv") in str(caught.value)
    assert HIDDEN not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "typical,seen by C",
            f"{HIDDEN},seen by C",
            r"row 3, column 'pain': the cell has a value that shard.toml",
        ),
        ("seen by C,no", f"seen by C,{HIDDEN}", r"row 3, column 'label': the cell is neither the positive nor the neg"),
        (
            "seen by C,no",
            "seen by C,",
            r"row 3, column 'label': the label is missing.*missing = \"drop\"",
        ),
        ("typical,seen by C", '"a\nb",seen by C', r"row 3, column 'pain': the cell has a line break"),
        ("typical,seen by C", "=1+1,seen by C", r"row 3, column 'pain': the cell begins with \"=\""),
    ],
)
def test_a_bad_category_or_label_is_refused_by_row_and_column(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        load(tmp_path, CLINIC.replace(old, new), toml=DECLARED)
    assert HIDDEN not in str(caught.value)


def test_quotes_line_breaks_and_a_byte_order_mark_are_read_where_they_belong(tmp_path: Path) -> None:
    text = (
        '\ufeff"patient",age,pain,note,label\r\n"007",63,"typical","first\nsecond, ""quoted""",yes\r\n8,4,none,,no\r\n'
    )
    shard = load(tmp_path, text, toml=DECLARED).shard
    assert shard.ids == ("7", "8")
    np.testing.assert_array_equal(np.asarray(shard.expanded().X), [[63.0, 0.0, 1.0], [4.0, 1.0, 0.0]])


def test_thousands_that_are_grouped_wrongly_are_refused_though_declared(tmp_path: Path) -> None:
    toml = NUMBERS + '[csv]\nthousands = ","\n'
    with pytest.raises(InvalidInput, match="row 2, column 'age'"):
        load(tmp_path, 'id,age\n1,"1,500"\n2,"1,5"\n', toml=toml)


def test_constant_columns_and_large_values_are_pointed_out(tmp_path: Path) -> None:
    cautions = load(tmp_path, "id,site,chol\n1,3,5000\n2,3,100\n", toml=NUMBERS).cautions
    assert any("every cell is the same in column 'site'; add it to leave_out" in caution for caution in cautions)
    assert any("values beyond ±100 in column 'chol'" in caution for caution in cautions)


def test_a_column_without_any_value_is_refused_whatever_becomes_of_missing_cells(tmp_path: Path) -> None:
    for policy in ("drop", "fill", "impute"):
        with pytest.raises(InvalidInput, match=r"table\.csv: column 'age': every cell is missing; add it to leave_out"):
            load(tmp_path, "id,age,bmi\n1,,5\n2,NA,6\n", toml=f'missing = "{policy}"\n{NUMBERS}')


def test_ids_of_several_columns_that_are_not_unique_name_the_columns(tmp_path: Path) -> None:
    toml = 'file = "table.csv"\nid = ["site", "no"]\n'
    with pytest.raises(PermanentError, match=r"columns 'site', 'no': rows 1 and 2 have the same id"):
        load(tmp_path, "site,no,age\na,01,4\na,1,5\n", toml=toml)


def test_columns_of_another_type_than_declared_are_refused_in_a_typed_file(tmp_path: Path) -> None:
    dates = pa.array([datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)])
    pq.write_table(pa.table({"id": [1, 2], "seen": dates}), tmp_path / "table.parquet")
    (tmp_path / "shard.toml").write_text(NUMBERS.replace("csv", "parquet"))
    with pytest.raises(InvalidInput, match=r"column 'seen': the cell has a type that is no number; add the column"):
        load_shard(tmp_path)
    pq.write_table(pa.table({"id": [1.0, 2.5], "age": [4, 5]}), tmp_path / "table.parquet")
    with pytest.raises(InvalidInput, match=r"row 2, column 'id': the cell is a number with decimal places"):
        load_shard(tmp_path)


def test_a_bad_cell_in_the_last_of_a_million_rows_is_named_by_its_row(tmp_path: Path) -> None:
    rows = [f"{row},{row % 97}" for row in range(1, 1_000_000)]
    text = "\n".join(["id,age", *rows, f"1000000,{HIDDEN}"])
    with pytest.raises(InvalidInput, match=r"table\.csv: row 1000000, column 'age': the cell is not a number"):
        load(tmp_path, text, toml=NUMBERS)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_table(tmp_path, "id,age\n1,4\n", toml=NUMBERS)
    batches = CsvSource.batches

    def growing(source: CsvSource, columns: Sequence[str]) -> Iterator[Any]:
        yield from batches(source, columns)
        with path.open("a") as file:
            file.write("2,5\n")

    monkeypatch.setattr(CsvSource, "batches", growing)
    with pytest.raises(InvalidInput, match="changed while it was read; wait until it is whole, or copy it"):
        load_shard(path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("yes 1:2 # b", "row 2: the label is not a number"),
        ("1 1:2 3 # b", "row 2: has an entry that is not of the form INDEX:VALUE"),
        ("1 1:x # b", "row 2: has an entry that is not of the form INDEX:VALUE"),
        ("1 1.5:2 # b", "row 2: an index must be a whole number"),
        ("1 -3:2 # b", "row 2: an index must be a whole number"),
        ("1 3:2 3:1 # b", "row 2: indices must ascend, and none may occur twice"),
        ("1 1:2", r"row 2: has no id, in UTF-8, after \"#\""),
        ("1 1:2 # a", "rows 1 and 2 have the same id"),
    ],
)
def test_a_bad_libsvm_line_is_refused_by_its_row(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(PermanentError, match=complaint):
        load(tmp_path, f"-1 2:1 # a\n{line}\n", name="table.libsvm")


def test_a_bad_npz_file_is_refused_by_its_array(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, ids=np.array(["a", "b"], dtype=object), features=np.array(["f"]), X=np.eye(2))
    with pytest.raises(InvalidInput, match=r"table.npz: ids: is an array of Python objects.*ids\.astype\(str\)"):
        load_shard(path)
    np.savez(path, ids=np.array([1.5, 2.0]), features=np.array(["f"]), X=np.ones((2, 1)))
    with pytest.raises(InvalidInput, match=r"table.npz: ids: row 1: the id is a number with decimal places"):
        load_shard(path)
    np.savez(path, ids=np.array([1, 2]), features=np.array(["f"]), X=np.array([[1.0], [np.nan]]))
    with pytest.raises(InvalidInput, match="row 2, column 'f': the cell is missing"):
        load_shard(path)


def test_a_damaged_parquet_file_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a readable Parquet file"):
        load(tmp_path, b"PAR1 no", name="table.parquet")
    with pytest.raises(InvalidInput, match=r"the format is not known by the end of the name \(\.csv"):
        load(tmp_path, "", name="table.xlsx")
    write_table(tmp_path, "id,age\n1,2\n")
    with pytest.raises(InvalidInput, match=r"has no shard.toml and 2 tables; name the file"):
        load_shard(tmp_path)
    with pytest.raises(InvalidInput, match="there is no such file"):
        load_shard(tmp_path / "gone.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path, "id,age\n1,2\n")
    path.chmod(0)
    with pytest.raises(InvalidInput, match="cannot be read: Permission denied"):
        load_shard(path)
