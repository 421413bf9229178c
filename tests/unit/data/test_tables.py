"""Tables become shards: by shard.toml, by guesses, in every format, dense and sparse."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from fenchel_common.data.shard import Shard
from fenchel_common.data.tables import readers
from fenchel_common.data.tables.declaration import Declaration
from fenchel_common.data.tables.frames import shard_from_frame
from fenchel_common.data.tables.source import WatchedTable, load_shard
from fenchel_common.errors import InvalidInput
from support.tablefiles import CLINIC, DECLARED, load, write_table

IDS = ("7", "8", "9", "10")
FEATURES = ("age", "pain=none", "pain=typical")
CELLS = [[63.0, 0.0, 1.0], [41.5, 1.0, 0.0], [57.0, 0.0, 1.0], [52.0, 1.0, 0.0]]
LABELS = [1.0, -1.0, -1.0, 1.0]
TYPED = {
    "patient": [7, 8, 9, 10],
    "age": [63.0, 41.5, 57.0, 52.0],
    "pain": ["typical", "none", "typical", "none"],
    "note": ["a", "b", "c", "d"],
    "label": ["yes", "no", "no", "yes"],
}


def assert_clinic(given: Shard) -> None:
    shard = given.expanded()
    assert (shard.ids, shard.features) == (IDS, FEATURES)
    np.testing.assert_array_equal(shard.X.toarray() if isinstance(shard.X, csr_array) else shard.X, CELLS)
    np.testing.assert_array_equal(shard.y, LABELS)


def test_a_declared_csv_becomes_the_shard_that_it_declares(tmp_path: Path) -> None:
    loaded = load(tmp_path, CLINIC, toml=DECLARED)
    assert_clinic(loaded.shard)
    assert loaded.guesses == loaded.cautions == ()


@pytest.mark.parametrize("given", ["table.csv", "shard.toml", "."])
def test_a_file_its_declaration_and_their_folder_mean_the_same(tmp_path: Path, given: str) -> None:
    write_table(tmp_path, CLINIC, toml=DECLARED)
    assert_clinic(load_shard(tmp_path / given).shard)


def test_a_table_without_declaration_is_read_by_guesses_that_are_told(tmp_path: Path) -> None:
    loaded = load(tmp_path, CLINIC)
    assert loaded.shard.expanded().features == FEATURES
    np.testing.assert_array_equal(loaded.shard.y, LABELS)
    told = "\n".join(loaded.guesses)
    for part in (
        "'patient' has the ids",
        "'label' has the labels",
        "'pain' is a category of 2 values",
        "'note' is left out",
    ):
        assert part in told
    for cell in ("typical", "seen", "yes", "007"):
        assert cell not in told


def test_a_parquet_file_with_typed_columns_gives_the_same_shard(tmp_path: Path) -> None:
    table = pa.table({**TYPED, "pain": pa.array(TYPED["pain"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "table.parquet")
    toml = DECLARED.replace("table.csv", "table.parquet")
    (tmp_path / "shard.toml").write_text(toml)
    assert_clinic(load_shard(tmp_path).shard)


@pytest.mark.parametrize("named", ["parts", "parts/*.parquet", "pa*/?.parquet"])
def test_many_parquet_files_are_one_table(tmp_path: Path, named: str) -> None:
    (tmp_path / "parts").mkdir()
    table = pa.table(TYPED)
    pq.write_table(table.slice(2), tmp_path / "parts" / "b.parquet")
    pq.write_table(table.slice(0, 2).select(list(reversed(TYPED))), tmp_path / "parts" / "a.parquet")
    (tmp_path / "shard.toml").write_text(DECLARED.replace("table.csv", named))
    assert_clinic(load_shard(tmp_path).shard)
    watched = WatchedTable(tmp_path, load_shard)
    watched.read()
    assert watched.newer() is None
    pq.write_table(pa.table(TYPED | {"patient": [17, 18, 19, 20]}), tmp_path / "parts" / "c.parquet")
    newer = watched.newer()
    assert newer is not None
    assert len(newer.shard.ids) == 8


def test_many_files_with_other_columns_or_in_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shard.toml").write_text(DECLARED.replace("table.csv", "*.parquet"))
    with pytest.raises(InvalidInput, match="no such file"):
        load_shard(tmp_path)
    pq.write_table(pa.table(TYPED), tmp_path / "a.parquet")
    pq.write_table(pa.table(TYPED).drop_columns("age"), tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match=r"'age' is in one of a\.parquet and b\.parquet alone"):
        load_shard(tmp_path)
    write_table(tmp_path, CLINIC, toml=DECLARED.replace("table.csv", "*.csv"))
    with pytest.raises(InvalidInput, match="only Parquet"):
        load_shard(tmp_path)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_frame_gives_the_same_shard(make: object) -> None:
    assert callable(make)
    declared = Declaration.from_mapping({"file": "f", "id": "patient"}, source="test").model_dump(exclude_defaults=True)
    declared |= {
        "leave_out": ["note"],
        "label": {"column": "label", "positive": "yes", "negative": "no"},
        "features": {"age": {}, "pain": {"type": "category", "values": ["typical", "none"]}},
    }
    del declared["file"]
    shard, notes = shard_from_frame(make(TYPED), **declared)
    assert_clinic(shard)
    assert notes == []
    guessed, notes = shard_from_frame(make(TYPED))
    assert guessed.ids == IDS
    assert any("'patient' has the ids" in note for note in notes)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a list is no frame of pandas, polars or arrow"):
        shard_from_frame([1, 2])
    with pytest.raises(InvalidInput, match="a column with cells of several types"):
        shard_from_frame(pd.DataFrame({"id": [1, "b"], "age": [1.0, 2.0]}), id="id")


@pytest.mark.parametrize(
    ("rule", "ids", "ages"),
    [
        ('missing = "drop"', ("1", "3"), [[4.0], [6.0]]),
        ('missing = "fill"\nfill = 5', ("1", "2", "3"), [[4.0], [5.0], [6.0]]),
        ('missing = "fill"\n[features.age]\nindicator = true', ("1", "2", "3"), [[4.0, 0.0], [0.0, 1.0], [6.0, 0.0]]),
        ('missing = "impute"', ("1", "2", "3"), [[4.0], [np.nan], [6.0]]),
        (
            '[features.age]\nmissing = "impute"\nindicator = true',
            ("1", "2", "3"),
            [[4.0, 0.0], [np.nan, 1.0], [6.0, 0.0]],
        ),
    ],
)
@pytest.mark.parametrize("sparse", ["false", "true"])
def test_missing_cells_are_dealt_with_as_declared(
    tmp_path: Path, rule: str, ids: tuple[str, ...], ages: list[list[float]], sparse: str
) -> None:
    toml = f'file = "table.csv"\nid = "id"\nsparse = {sparse}\n{rule}\n'
    shard = load(tmp_path, "id,age\n1,4\n2, NA \n3,6\n", toml=toml).shard
    assert shard.ids == ids
    assert isinstance(shard.X, csr_array) == (sparse == "true")
    np.testing.assert_array_equal(shard.X.toarray() if isinstance(shard.X, csr_array) else shard.X, ages)
    assert shard.features == (("age", "age is missing") if "indicator" in rule else ("age",))
    assert shard.imputed == ({"age"} if "impute" in rule else set())


def test_a_missing_category_is_none_of_its_values_and_can_be_told_by_an_indicator(tmp_path: Path) -> None:
    text = CLINIC.replace("41.5,none", "41.5,")
    shard = load(tmp_path, text, toml=DECLARED + 'missing = "fill"\nindicator = true\n').shard.expanded()
    assert shard.features == ("age", "pain is missing", "pain=none", "pain=typical")
    np.testing.assert_array_equal(np.asarray(shard.X)[1], [41.5, 1.0, 0.0, 0.0])


def test_a_category_without_values_has_those_that_are_found(tmp_path: Path) -> None:
    shard = load(tmp_path, CLINIC, toml=DECLARED.replace('values = ["typical", "none"]\n', "")).shard
    assert not shard.categories[0].listed
    assert_clinic(shard)


def test_a_sparse_csv_equals_the_dense_one(tmp_path: Path) -> None:
    shard = load(tmp_path, CLINIC, toml="sparse = true\n" + DECLARED).shard
    assert isinstance(shard.X, csr_array)
    assert_clinic(shard)


def test_decimal_commas_and_thousands_are_read_where_they_are_declared(tmp_path: Path) -> None:
    toml = 'file = "table.csv"\nid = "id"\n[csv]\ndecimal = ","\nthousands = "."\n'
    shard = load(tmp_path, "id;age\n1;1.234,5\n2;7\n3;-1.234.567\n4; 3,25\n", toml=toml).shard
    np.testing.assert_array_equal(np.asarray(shard.X)[:, 0], [1234.5, 7.0, -1234567.0, 3.25])


def test_a_latin_1_file_is_read_where_it_is_declared(tmp_path: Path) -> None:
    toml = DECLARED.replace("typical", "très").replace("[label]", '[csv]\nencoding = "latin-1"\n[label]')
    shard = load(tmp_path, CLINIC.replace("typical", "très").encode("latin-1"), toml=toml).shard
    assert shard.expanded().features == ("age", "pain=none", "pain=très")


def test_ids_of_several_columns_are_joined(tmp_path: Path) -> None:
    toml = 'file = "table.csv"\nid = ["site", "no"]\n'
    assert load(tmp_path, "site,no,age\na,01,4\nb,1,5\n", toml=toml).shard.ids == ("a|1", "b|1")


def test_labels_can_be_numbers(tmp_path: Path) -> None:
    toml = 'file = "table.csv"\nid = "id"\n[label]\ncolumn = "days"\ntype = "number"\n'
    np.testing.assert_array_equal(load(tmp_path, "id,age,days\n1,4,2.5\n2,5,7\n", toml=toml).shard.y, [2.5, 7.0])


def test_a_wide_libsvm_file_stays_sparse(tmp_path: Path) -> None:
    lines = "+1 3:1.5 1300000:2 # 007\n-1 # b\n\n1 1:-4e-1 # c\n"
    shard = load(tmp_path, lines, name="table.libsvm").shard
    assert shard.ids == ("7", "b", "c")
    assert isinstance(shard.X, csr_array)
    assert shard.X.shape == (3, 1_300_000)
    assert (shard.X.nnz, shard.features[2], shard.features[-1]) == (3, "x3", "x1300000")
    np.testing.assert_array_equal(shard.y, [1.0, -1.0, 1.0])


def test_a_libsvm_file_without_ids_has_the_numbers_of_its_lines_and_says_so(tmp_path: Path) -> None:
    toml = 'file = "table.svm"\n[libsvm]\nids = "rows"\nfeatures = 5\n[label]\npositive = 2\nnegative = 1\n'
    shard = load(tmp_path, "2 3:1\n1 1:1\n", name="table.svm", toml=toml).shard
    assert (shard.ids, len(shard.features)) == (("1", "2"), 5)
    np.testing.assert_array_equal(shard.y, [1.0, -1.0])
    (tmp_path / "shard.toml").unlink()
    guessed = load_shard(tmp_path / "table.svm")
    assert any("the number of its line is the id" in guess for guess in guessed.guesses)


def test_a_file_without_labels_leaves_them_out(tmp_path: Path) -> None:
    toml = 'file = "table.svm"\nleave_out = ["y", "x2"]\n'
    shard = load(tmp_path, "0 1:1 3:1 # a\n0 1:2 # b\n", name="table.svm", toml=toml).shard
    assert (shard.features, shard.y) == (("x1", "x3"), None)


def test_an_npz_file_is_read_as_it_is_and_its_integer_ids_by_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, ids=np.array([7, 8]), features=np.array(["a", "b"]), X=np.eye(2), y=np.array([0, 1]))
    loaded = load_shard(path)
    assert (loaded.shard.ids, loaded.guesses) == (("7", "8"), ())
    np.testing.assert_array_equal(loaded.shard.y, [0.0, 1.0])
    (tmp_path / "shard.toml").write_text('file = "table.npz"\n[label]\npositive = 1\nnegative = 0\n')
    np.testing.assert_array_equal(load_shard(path).shard.y, [-1.0, 1.0])


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name=name.replace("fenchel_common.data.tables.csvfile", "pyarrow"))

    monkeypatch.setattr(readers, "import_module", absent)
    with pytest.raises(
        InvalidInput, match=r"csv files need the Python package pyarrow.*pip install 'fenchel\[tables\]'"
    ):
        load(tmp_path, CLINIC)


WEIGHTED = """patient,age,label,visits
7,63,yes,2
8,41.5,no,0.5
9,57,,
"""
WITH_WEIGHTS = """
file = "table.csv"
id = "patient"
[label]
column = "label"
positive = "yes"
negative = "no"
missing = "drop"
weight = "visits"
"""


def test_a_column_of_weights_belongs_to_the_labels(tmp_path: Path) -> None:
    """The row without a label, which is dropped, needs no weight."""
    shard = load(tmp_path, WEIGHTED, toml=WITH_WEIGHTS).shard
    assert (shard.ids, shard.features) == (("7", "8"), ("age",))
    np.testing.assert_array_equal(shard.weights, [2.0, 0.5])
    shard.save(tmp_path / "again.npz")
    for again in (Shard.load(tmp_path / "again.npz"), load_shard(tmp_path / "again.npz").shard):
        np.testing.assert_array_equal(again.weights, [2.0, 0.5])


@pytest.mark.parametrize("cell", ["", "0", "-1"])
def test_a_weight_that_is_missing_or_not_positive_is_refused_with_its_row(tmp_path: Path, cell: str) -> None:
    with pytest.raises(InvalidInput, match=r"row 2: the weight is missing or not positive \(of all: 1\)"):
        load(tmp_path, WEIGHTED.replace("0.5", cell), toml=WITH_WEIGHTS)


def test_weights_without_labels_and_of_formats_without_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="samples without labels have no weights"):
        Shard(("a",), ("x",), np.ones((1, 1)), None, weights=np.ones(1))
    Shard(("a",), ("x",), np.ones((1, 1)), np.ones(1)).save(tmp_path / "table.npz")
    (tmp_path / "shard.toml").write_text('file = "table.npz"\n[label]\ntype = "number"\nweight = "x"\n')
    with pytest.raises(InvalidInput, match="has no columns to be weights"):
        load_shard(tmp_path)
    twice = WITH_WEIGHTS.replace('weight = "visits"', 'weight = "label"')
    with pytest.raises(InvalidInput, match="column 'label' has two uses"):
        load(tmp_path, WEIGHTED, toml=twice)
