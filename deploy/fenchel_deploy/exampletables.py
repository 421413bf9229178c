"""Tables to try Fenchel with: four hospitals, each with a clinic and a lab that have the same patients.

    DIR/north-clinic/patients.csv       who the patients are, what the clinic found, and the outcome
    DIR/north-lab/measurements.csv      what the lab measured of the same patients, without the outcome
    DIR/east-clinic/…                   and so on for east, south and west

The patients are made up, or those of the UCI heart disease data: Cleveland, Budapest, Zürich and Basel, Long Beach.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fenchel_common.data.shard import float_array, load_arrays
from fenchel_common.errors import InvalidInput

ARCHIVE: Final = "heart_disease.npz"
SITES: Final = ("north", "east", "south", "west")
MADE_UP_PATIENTS: Final = (120, 100, 60, 80)
YES_NO: Final = {0: "no", 1: "yes"}

Cells = NDArray[np.float64]
Write = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Patients:
    """All patients, in the coding of the UCI data: (n, 13) cells with NaN where one is missing, outcome and site."""

    cells: Cells
    diseased: NDArray[np.bool_]
    site: NDArray[np.int64]


def _number(value: float) -> str:
    return f"{value:g}"


def _named(names: Mapping[int, str]) -> Write:
    return lambda value: names[int(value)]


CLINIC: Final[Mapping[str, tuple[int, Write]]] = {
    "age": (0, _number),
    "sex": (1, _named({0: "female", 1: "male"})),
    "chest_pain": (2, _named({1: "typical", 2: "atypical", 3: "other", 4: "none"})),
    "blood_pressure": (3, _number),
    "exercise_pain": (8, _named(YES_NO)),
}
"""The columns of a clinic: their names, their positions in the UCI data, and how a cell is written."""
LAB: Final[Mapping[str, tuple[int, Write]]] = {
    "cholesterol": (4, _number),
    "high_sugar": (5, _named(YES_NO)),
    "ecg": (6, _named({0: "normal", 1: "abnormal", 2: "hypertrophy"})),
    "heart_rate": (7, _number),
    "st_depression": (9, _number),
    "st_slope": (10, _named({1: "up", 2: "flat", 3: "down"})),
    "vessels": (11, _number),
    "scan": (12, _named({3: "normal", 6: "fixed", 7: "reversible"})),
}


def write_example(directory: Path, archives: Path | None) -> str:
    """Writes the tables into a new or empty folder; returns a sentence on whose they are.

    `archives` is a folder with the archive of the UCI data; without it the patients are made up.
    """
    if directory.exists() and any(directory.iterdir()):
        raise InvalidInput(f"{directory}: is not empty; name a new folder")
    patients = _made_up() if archives is None else _of_uci(archives / ARCHIVE)
    for number, site in enumerate(SITES):
        rows = np.flatnonzero(patients.site == number)
        ids = [f"{site}-{position:03d}" for position in range(1, len(rows) + 1)]
        outcomes = [YES_NO[int(diseased)] for diseased in patients.diseased[rows]]
        cells = patients.cells[rows]
        _write(directory / f"{site}-clinic" / "patients.csv", ids, cells, CLINIC, {"outcome": outcomes})
        _write(directory / f"{site}-lab" / "measurements.csv", ids, cells, LAB, {})
    whose = "made-up patients" if archives is None else "patients of the UCI heart disease data"
    return f"{len(patients.site)} {whose}, {len(SITES)} hospitals, each with a clinic and a lab"


def _write(
    path: Path,
    ids: Sequence[str],
    cells: Cells,
    columns: Mapping[str, tuple[int, Write]],
    further: Mapping[str, Sequence[str]],
) -> None:
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *columns, *further])
        for row, (sample, values) in enumerate(zip(ids, cells, strict=True)):
            own = ["" if np.isnan(values[at]) else write(values[at]) for at, write in columns.values()]
            writer.writerow([sample, *own, *(texts[row] for texts in further.values())])


def _of_uci(path: Path) -> Patients:
    arrays = load_arrays(path)
    try:
        cells, site = float_array(arrays["X"], "X"), float_array(arrays["site"], "site")
        diseased = float_array(arrays["y"], "y") > 0
    except KeyError as error:
        raise InvalidInput(
            f"{path}: lacks the array {error}; it is not the archive of the heart disease data"
        ) from None
    return Patients(cells, diseased, site.astype(np.int64))


def _made_up() -> Patients:
    """Patients whose outcome follows from their cells, with some chance in it, and of whom cells are missing."""
    random = np.random.default_rng(0)
    site = np.repeat(np.arange(len(SITES)), MADE_UP_PATIENTS)
    count = len(site)
    risk = random.normal(size=count)
    cells = np.column_stack(
        [
            np.rint(54 + 7 * risk + 6 * random.normal(size=count)),
            random.integers(0, 2, count),
            1 + np.searchsorted([-1.2, -0.4, 0.3], risk + random.normal(size=count)),
            np.rint(132 + 6 * risk + 14 * random.normal(size=count)),
            np.rint(245 + 12 * risk + 40 * random.normal(size=count)),
            random.random(count) < 0.15,
            random.integers(0, 3, count),
            np.rint(140 - 14 * risk + 16 * random.normal(size=count)),
            risk + random.normal(size=count) > 0.6,
            np.maximum(0.0, np.round(0.9 + 0.6 * risk + 0.7 * random.normal(size=count), 1)),
            1 + np.searchsorted([-0.3, 1.3], risk + random.normal(size=count)),
            np.clip(np.rint(0.7 + 0.7 * risk), 0, 3),
            np.array([3, 6, 7])[np.searchsorted([0.2, 0.6], risk + random.normal(size=count))],
        ]
    ).astype(np.float64)
    missing = random.random(cells.shape) < 0.08
    missing[:, :3] = False
    cells[missing] = np.nan
    return Patients(cells, risk + 0.6 * random.normal(size=count) > 0.0, site)
