"""Rows on disk: what a kill at any byte leaves behind is made whole again."""

from pathlib import Path

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_deploy.papers.journal import Journal, Row

COLUMNS = ("setting", "value")
PLAN: dict[str, object] = {"experiment": "one"}
UNITS: dict[str, list[Row]] = {
    "5, 0.1 / a": [{"setting": "5, 0.1", "value": 0.123456789}, {"setting": "5, 0.1", "value": None}],
    'b, "quoted"': [{"setting": "b", "value": 2}],
    "c": [{"setting": "c", "value": value} for value in (3.0, 4.0)],
}


def filled(folder: Path) -> Journal:
    journal = Journal(folder, COLUMNS, PLAN)
    for unit, rows in UNITS.items():
        if unit not in journal.done:
            journal.append(unit, rows)
    return journal


def test_a_file_that_is_cut_at_any_byte_is_completed_to_the_same_bytes(tmp_path: Path) -> None:
    whole = filled(tmp_path).path.read_bytes()
    for length in range(len(whole)):
        (tmp_path / "rows.csv").write_bytes(whole[:length])
        assert filled(tmp_path).path.read_bytes() == whole, length


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = filled(tmp_path).rows()
    assert [row["value"] for row in rows] == ["0.123457", "", "2", "3", "4"]
    assert Journal(tmp_path, COLUMNS, PLAN).rows() == rows


def test_a_folder_with_the_rows_of_another_plan_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    with pytest.raises(InvalidInput, match=r"has the rows of another plan.*--out"):
        Journal(tmp_path, COLUMNS, {"experiment": "two"})
    with pytest.raises(InvalidInput, match="another plan"):
        Journal(tmp_path, (*COLUMNS, "more"), PLAN)
    assert len(Journal(tmp_path, COLUMNS, PLAN).rows()) == 5
