"""CSV tables of two clinics with labels and of a lab that knows most of their patients.

Cells are missing, and some columns are categories.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fenchel_deploy.tablefolder import table_folders

ROWS = 90
LABELS = {
    "outcome": 'column = "outcome"\npositive = "yes"\nnegative = "no"\nweight = "visits"\n',
    "kind": 'column = "kind"\ntype = "names"\n',
    "cost": 'column = "cost"\ntype = "number"\n',
}


def whole_table() -> dict[str, list[str]]:
    """The columns of the whole table as texts; in a tenth of the rows the outcome is `yes`."""
    rng = np.random.default_rng(4)
    numbers = rng.normal(size=(ROWS, 5))
    score = numbers @ [1.0, -0.5, 0.3, 0.8, 0.0] + 0.3 * rng.normal(size=ROWS)
    columns = {
        "age": np.rint(50.0 + 10.0 * numbers[:, 0]),
        "chol": np.exp(5.0 + 0.3 * numbers[:, 1]),
        "pulse": 70.0 + numbers[:, 2],
        "iron": 1e-3 * numbers[:, 3],
        "sugar": 100.0 * numbers[:, 4],
        "cost": 9000.0 + 2000.0 * score,
        "visits": rng.integers(1, 4, size=ROWS),
    }
    texts = {name: [f"{value:.8g}" for value in column] for name, column in columns.items()}
    for name in ("age", "chol", "iron"):
        texts[name] = ["" if gap else text for gap, text in zip(rng.random(ROWS) < 0.1, texts[name], strict=True)]
    texts["pain"] = rng.choice(["dull", "sharp", "rare", ""], p=[0.5, 0.35, 0.05, 0.1], size=ROWS).tolist()
    texts["outcome"] = np.where(score > np.quantile(score, 0.9), "yes", "no").tolist()
    texts["kind"] = np.array(["a", "b", "c"])[np.digitize(score, np.quantile(score, [0.4, 0.8]))].tolist()
    return texts


def write_tables(folder: Path, cells: Mapping[str, list[str]], label: str, *, sparse: bool = False) -> dict[str, Path]:
    """Clinics have rows of their own, the lab all rows but the first ten, and ten that no clinic knows."""
    columns = ["age", "chol", "pulse", "pain", label, *(["visits"] if label == "outcome" else [])]
    of_party = {
        "north": (range(40), columns),
        "south": (range(40, ROWS), columns),
        "lab": (range(10, ROWS + 10), ["iron", "sugar"]),
    }
    for party, (rows, own) in of_party.items():
        (folder / party).mkdir(parents=True)
        lines = [",".join(["patient", *own])]
        lines += [",".join([str(row), *(cells[name][row % ROWS] for name in own)]) for row in rows]
        (folder / party / "table.csv").write_text("\n".join(lines) + "\n")
        kind = '[features.pain]\ntype = "category"\n' if party != "lab" else ""
        numbers = "".join(f"[features.{name}]\n" for name in own if name in ("age", "chol", "pulse", "iron", "sugar"))
        toml = f'file = "table.csv"\nid = "patient"\nmissing = "impute"\nsparse = {str(sparse).lower()}\n'
        toml += f"[label]\n{LABELS[label]}" if party != "lab" else ""
        (folder / party / "shard.toml").write_text(toml + kind + numbers)
    return table_folders(folder)
