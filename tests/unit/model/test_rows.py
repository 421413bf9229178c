"""New rows of every format become the raw values of the model's features."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from fenchel_common.data.shard import Shard
from fenchel_common.errors import InvalidInput
from fenchel_common.model import Feature
from fenchel_common.model.rows import NewRows, TableRules, read_rows
from fenchel_common.model.scoring import prepared
from support.models import NUMBERS, PAINS, small_model, small_record

CELLS = """patient,note,pain,height,age,outcome
p1,x,dull,1.8,60,yes
p2,x,,,50,no
p3,x,burning,1.7,,
"""
X = [[60, 1.8, 1, 0, 0, 0], [50, np.nan, np.nan, np.nan, np.nan, 1], [np.nan, 1.7, 0, 0, 1, 0]]


def written(folder: Path, text: str = CELLS, name: str = "new.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def dense(rows: NewRows) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return rows.X.toarray() if isinstance(rows.X, csr_array) else rows.X


def test_columns_are_found_by_name_and_what_the_model_does_not_use_is_passed_over(tmp_path: Path) -> None:
    rows = read_rows([written(tmp_path)], small_record())
    assert rows.ids == ("p1", "p2", "p3")
    np.testing.assert_array_equal(dense(rows), X)
    assert rows.y is not None
    np.testing.assert_array_equal(rows.y, [1.0, 0.0, np.nan])
    (note,) = rows.notes
    assert "column 'pain': 1 cells have a value without a feature in the model; they count as the other values" in note


def test_a_missing_cell_has_the_value_that_the_model_gives_it(tmp_path: Path) -> None:
    values = prepared(small_model(), read_rows([written(tmp_path)], small_record()).X)
    np.testing.assert_allclose(np.asarray(values)[1], [0.0, -1.0, 0.0, 0.0, 0.0, 0.9], atol=1e-12)
    refused = (Feature("age", "number", "age"), *NUMBERS[1:], *PAINS)
    rows = read_rows([written(tmp_path)], small_record(refused))
    with pytest.raises(InvalidInput, match=r"row 3, column 'age': the cell is missing.*cells without a value: 1\)"):
        prepared(small_model(refused), rows.X)


def test_an_unknown_value_without_a_feature_for_others_is_none(tmp_path: Path) -> None:
    record = small_record((*NUMBERS, *PAINS[:2]))
    rows = read_rows([written(tmp_path)], record)
    np.testing.assert_array_equal(dense(rows)[2, 2:], [0.0, 0.0])
    assert "they count as none of its values" in rows.notes[0]


def test_the_rules_of_a_shard_toml_hold(tmp_path: Path) -> None:
    rules = tmp_path / "shard.toml"
    rules.write_text(
        'file = "other.csv"\nid = ["site", "number"]\n[csv]\ndecimal = ","\nmissing_values = ["none"]\n[label]\n'
        'column = "ill"\npositive = 1\nnegative = 0\nmissing = "drop"\n[features.age]\nmissing = "fill"\nfill = 33.0\n'
        '[features.pain]\ntype = "category"\nvalues = ["dull", "sharp"]\nmissing = "fill"\n'
    )
    text = "site;number;ill;age;height;pain\na;007;1;none;1,5;sharp\nb;8;0;40;1,6;none\n"
    rows = read_rows([written(tmp_path, text)], small_record(), TableRules(rules))
    assert rows.ids == ("a|7", "b|8")
    np.testing.assert_array_equal(dense(rows), [[33, 1.5, 0, 1, 0, 0], [40, 1.6, 0, 0, 0, 1]])
    np.testing.assert_array_equal(rows.y, [1.0, 0.0])
    rules.write_text('file = "new.csv"\nid = "number"\n')
    written(tmp_path, "number;age;height;pain;y\n007;1;1.5;sharp;yes\n8;2;1.6;dull;no\n")
    assert read_rows([tmp_path], small_record()).ids == ("7", "8")
    assert read_rows([tmp_path], small_record()).y is None


def test_several_tables_with_other_columns_of_the_same_samples_are_put_together(tmp_path: Path) -> None:
    numbers = written(tmp_path, "id,age,height\n1,60,1.8\n02,50,\n3,,1.7\n")
    pains = written(tmp_path, "id,pain,y\n3,burning,\n2,,no\n1,dull,yes\n", "pains.csv")
    rows = read_rows([numbers, pains], small_record())
    np.testing.assert_array_equal(dense(rows), X)
    np.testing.assert_array_equal(rows.y, [1.0, 0.0, np.nan])
    written(tmp_path, "id,pain\n1,dull\n", "pains.csv")
    with pytest.raises(InvalidInput, match=r"lacks 2 of the 3 samples of .*new\.csv"):
        read_rows([numbers, pains], small_record())
    with pytest.raises(InvalidInput, match="has no column 'pain', which the model uses"):
        read_rows([numbers], small_record())


def test_parquet_files_have_their_types(tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    columns = {"id": [1, 2], "age": [60, 50], "height": [1.8, None], "pain": ["dull", "sharp"], "weight": [2.0, 1.0]}
    pq.write_table(pa.table(columns), path)
    np.testing.assert_array_equal(dense(read_rows([path], small_record()))[1], [50, np.nan, 0, 1, 0, 0])


def test_sparse_files_stay_sparse_and_lack_no_column(tmp_path: Path) -> None:
    features = tuple(Feature(f"x{number}", "number", f"x{number}", None, 0.0, 2.0) for number in (1, 3, 9))
    record = small_record(features, classes=())
    rows = read_rows([written(tmp_path, "1 1:4 3:6 # a\n-1 2:5 # b\n", "new.libsvm")], record)
    assert isinstance(rows.X, csr_array)
    np.testing.assert_array_equal(rows.X.toarray(), [[4, 6, 0], [0, 0, 0]])
    np.testing.assert_array_equal(rows.y, [1.0, 0.0])
    values = prepared(small_model(features, unit_rows=True), rows.X)
    np.testing.assert_allclose(csr_array(values).toarray(), np.array([[2, 3, 0], [0, 0, 0]]) / 13**0.5)


def test_an_npz_file_is_read_by_names_and_its_classes_are_compared_with_the_models(tmp_path: Path) -> None:
    path = tmp_path / "new.npz"
    cells = np.array([[1.8, 0, 60], [1.6, 0, 50]])
    Shard(("a", "b"), ("height", "extra", "age"), cells, np.array([2.0, 1.0])).save(path)
    rows = read_rows([path], small_record(NUMBERS, classes=("1", "2")))
    np.testing.assert_array_equal(rows.X, [[60, 1.8], [50, 1.6]])
    np.testing.assert_array_equal(rows.y, [1.0, 0.0])
    several = small_record(NUMBERS, task="classes", classes=("2", "3", "1"))
    np.testing.assert_array_equal(read_rows([path], several).y, [0.0, 2.0])
    with pytest.raises(InvalidInput, match="1 of 2 labels are no classes of the model: no, yes"):
        read_rows([path], small_record(NUMBERS))


def test_a_table_without_ids_and_one_without_rows_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, CELLS.replace("patient", "who"))
    with pytest.raises(InvalidInput, match=r"no column is named like an id.*--id COLUMN"):
        read_rows([path], small_record())
    assert read_rows([path], small_record(), TableRules(ids=("who",))).ids == ("p1", "p2", "p3")
    with pytest.raises(InvalidInput, match="has no rows"):
        read_rows([written(tmp_path, "id,age,height,pain\n")], small_record())
