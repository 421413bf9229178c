"""The folder of a model: what is written comes back, and whatever is not what was written is refused."""

import json
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.model import Model, find_model, read_model, write_model
from fenchel_common.model.folder import FILES, RECORD_FILE, SUMS_FILE, WEIGHTS_FILE
from support.models import NUMBERS, small_model

CLASSES: dict[str, Any] = {"task": "classes", "classes": ("a", "b", "c"), "intercept": "held"}


def kept(tmp_path: Path, model: Model | None = None) -> Path:
    folder = tmp_path / "run-1.model"
    write_model(folder, model or small_model())
    return folder


def sealed_anew(folder: Path, **changes: object) -> None:
    """Writes changed entries into model.json, with sums to fit: as another version of Fenchel would have written."""
    values = json.loads((folder / RECORD_FILE).read_text()) | changes
    (folder / RECORD_FILE).write_text(json.dumps(values))
    summed = subprocess.run(
        ["sha256sum", RECORD_FILE, WEIGHTS_FILE], cwd=folder, capture_output=True, text=True, check=True
    )
    (folder / SUMS_FILE).write_text(summed.stdout)


@pytest.mark.parametrize(
    "model",
    [small_model(), small_model(intercept="held"), small_model(**CLASSES)],
    ids=["binary", "intercept", "classes"],
)
def test_a_model_comes_back_as_it_was(tmp_path: Path, model: Model) -> None:
    again = read_model(kept(tmp_path, model))
    assert again.record == model.record
    np.testing.assert_array_equal(again.weights, model.weights)
    assert str(again.intercept) == str(model.intercept)


def test_it_is_plain_json_and_npz_that_sha256sum_can_check(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", SUMS_FILE], cwd=folder, capture_output=True, check=True)
    record = json.loads((folder / RECORD_FILE).read_text())
    assert (record["format"], record["version"], record["lambda"]) == ("fenchel-model", 1, 0.1)
    assert record["features"][2] == {
        "name": "pain=dull",
        "kind": "category",
        "column": "pain",
        "value": "dull",
        "shift": 0.25,
        "scale": 1.0,
        "missing": 0.25,
    }
    with np.load(folder / WEIGHTS_FILE, allow_pickle=False) as arrays:
        assert arrays.files == ["weights"]
        assert arrays["weights"].shape == (len(record["features"]),)


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("name", FILES)
def test_an_altered_file_is_refused(tmp_path: Path, name: str) -> None:
    path = kept(tmp_path) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"is not what was written: its SHA-256 is not the one in SHA256SUMS"):
        read_model(path.parent)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = kept(tmp_path)
    (folder / name).unlink()
    with pytest.raises(InvalidInput, match=rf"{name}: cannot be read: No such file.*a model has"):
        read_model(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "has version 2 of the format, and this Fenchel reads version 1; use a newer Fenchel"),
        ({"version": 0}, "has version 0 of the format.*use the Fenchel that wrote it"),
        ({"version": "1"}, "has version '1' of the format"),
        ({"format": "other"}, "is not the model.json of a Fenchel model"),
        ({"features": 3}, "features: Input should be a valid tuple"),
        ({"intercept": "held"}, "intercept: is there, or missing, against the record"),
        ({"features": []}, "weights: have the shape"),
        ({"task": "guess"}, "task: Input should be"),
    ],
)
def test_another_version_and_records_that_fit_nothing_are_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    folder = kept(tmp_path)
    sealed_anew(folder, **changes)
    with pytest.raises(InvalidInput, match=said):
        read_model(folder)


def test_a_model_of_the_time_before_the_folder_is_refused_with_a_clear_word(tmp_path: Path) -> None:
    old = tmp_path / "run-1.model.npz"
    np.savez(old, features=np.array(["a"]), weights=np.ones(1))
    with pytest.raises(InvalidInput, match="is a model of an older Fenchel, which wrote one file"):
        find_model(old)


def test_a_folder_is_replaced_whole_also_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept(tmp_path)
    other = small_model(intercept="held")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for step in ("rename", "mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, step, killed)
            with pytest.raises(KeyboardInterrupt):
                write_model(folder, other)
        assert read_model(folder).intercept is None
    write_model(folder, other)
    assert read_model(folder).intercept is not None
    assert [path.name for path in tmp_path.iterdir()] == [folder.name], "nothing is left of the attempts"


def test_a_private_folder_stands_for_its_only_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has no model: no folder \*\.model"):
        find_model(tmp_path)
    kept(tmp_path)
    assert find_model(tmp_path).record.run == "run-0a1b2c3d"
    write_model(tmp_path / "run-2.model", small_model())
    with pytest.raises(InvalidInput, match=r"has 2 models: run-1\.model, run-2\.model; name one"):
        find_model(tmp_path)
    with pytest.raises(InvalidInput, match="there is no such folder"):
        find_model(tmp_path / "none")


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = small_model()
    with pytest.raises(InvalidInput, match="must be finite"):
        Model(model.record, np.full_like(model.weights, np.nan))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"classes": ["only"]}, "classes: 1 names do not fit the task binary"),
        ({"task": "regression"}, "classes: 2 names do not fit the task regression"),
        ({"target": {"shift": 0.0, "scale": -1.0}}, "shifts and scales must be finite, and scales positive"),
        ({"target": {"shift": 10**400, "scale": 1.0}}, r"target\.shift|must be finite"),
        ({"classes": ["no", "\ud800"]}, "have characters that Unicode does not have"),
    ],
)
def test_records_that_no_run_has_are_refused(tmp_path: Path, record: dict[str, object], said: str) -> None:
    folder = kept(tmp_path)
    sealed_anew(folder, **record)
    with pytest.raises(InvalidInput, match=said):
        read_model(folder)


@pytest.mark.parametrize("change", [{"shift": np.inf}, {"scale": 0.0}, {"scale": np.nan}, {"missing": np.nan}])
def test_features_have_figures_that_are_finite(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="must be finite, and scales positive"):
        small_model([replace(NUMBERS[0], **change)])


def test_a_name_occurs_once() -> None:
    with pytest.raises(InvalidInput, match="a name occurs more than once"):
        small_model([NUMBERS[0], NUMBERS[0]])
