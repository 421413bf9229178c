"""`fenchel data example`: tables that the guesses read rightly, made up or of the heart disease data."""

from pathlib import Path

import numpy as np
import pytest

from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import InvalidInput
from fenchel_deploy.exampletables import ARCHIVE, SITES, write_example


def test_every_table_is_usable_by_guesses_and_clinic_and_lab_have_the_same_patients(tmp_path: Path) -> None:
    assert "360 made-up patients, 4 hospitals" in write_example(tmp_path / "hospitals", None)
    features = set()
    for site in SITES:
        clinic = load_shard(tmp_path / "hospitals" / f"{site}-clinic").shard
        lab = load_shard(tmp_path / "hospitals" / f"{site}-lab").shard
        assert clinic.ids == lab.ids
        assert clinic.y is not None
        assert 0.2 < (clinic.y > 0).mean() < 0.8
        assert lab.y is None
        assert np.isnan(np.asarray(lab.X)).any(), "some cells are missing"
        features.add((clinic.features, lab.features))
    assert len(features) == 1, "all hospitals have the same columns and categories"


def test_an_archive_is_written_out_with_empty_cells_and_words(tmp_path: Path) -> None:
    cells = np.full((4, 13), np.nan)
    cells[:, :3] = [60.5, 1.0, 4.0]
    cells[:, 12] = 7.0
    np.savez(tmp_path / ARCHIVE, X=cells, y=np.array([0, 1, 2, 0]), site=np.arange(4))
    assert "4 patients of the UCI heart disease data" in write_example(tmp_path / "out", tmp_path)
    clinic = (tmp_path / "out" / "east-clinic" / "patients.csv").read_text().splitlines()
    assert clinic[1] == "east-001,60.5,male,none,,,yes"
    lab = (tmp_path / "out" / "west-lab" / "measurements.csv").read_text().splitlines()
    assert lab[1] == "west-001,,,,,,,,reversible"


def test_a_folder_in_use_and_a_folder_without_the_archive_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"heart_disease\.npz: there is no such file"):
        write_example(tmp_path / "out", tmp_path)
    np.savez(tmp_path / ARCHIVE, X=np.zeros((1, 13)))
    with pytest.raises(InvalidInput, match="lacks the array 'site'; it is not the archive of the heart disease data"):
        write_example(tmp_path / "out", tmp_path)
    with pytest.raises(InvalidInput, match="is not empty; name a new folder"):
        write_example(tmp_path, None)
