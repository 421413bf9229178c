"""What reading and checking a CSV file costs, beside Arrow's own reading of the same file.

Each reading has a process of its own, so that its peak of memory is its own. Of the memory, what the process has before
it reads is taken off.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

BLOCK_ROWS: Final = 100_000
WARM_UP: Final = "id,label,x0\n1,yes,1.5\n2,no,2.5\n"
SCRIPTS: Final = {
    "arrow": "import pyarrow.csv\nread = pyarrow.csv.read_csv",
    "fenchel": "from pathlib import Path\nfrom fenchel_common.data.tables.source import load_shard\n"
    "read = lambda path: load_shard(Path(path))",
}
MEASURE: Final = """
import json, resource, sys, time
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read(sys.argv[1])
before, began = peak(), time.perf_counter()
kept = read(sys.argv[2])
print(json.dumps({"seconds": time.perf_counter() - began, "bytes": peak() - before}))
"""


def write_table(path: Path, *, rows: int, columns: int, seed: int = 0) -> None:
    """A CSV file with ids, labels and columns of numbers, and its shard.toml."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(seed)
    names = [f"x{column}" for column in range(columns - 2)]
    with path.open("wb") as file:
        for start in range(0, rows, BLOCK_ROWS):
            count = min(BLOCK_ROWS, rows - start)
            cells: dict[str, Any] = {"id": np.arange(start, start + count) + 10_000_000}
            cells["label"] = np.where(rng.random(count) < 0.5, "yes", "no")
            cells |= {name: np.round(rng.standard_normal(count), 6) for name in names}
            options = pyarrow.csv.WriteOptions(include_header=start == 0)
            pyarrow.csv.write_csv(pa.table(cells), file, options)
    (path.parent / "shard.toml").write_text(
        f'file = "{path.name}"\nid = "id"\n[label]\ncolumn = "label"\npositive = "yes"\nnegative = "no"\n'
    )


def run(*, rows: int, columns: int, repeats: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Median seconds and bytes of each way of reading, and ours as multiples of Arrow's."""
    with tempfile.TemporaryDirectory(prefix="fenchel-bench-") as folder:
        table, small = Path(folder) / "table.csv", Path(folder) / "small" / "table.csv"
        small.parent.mkdir()
        small.write_text(WARM_UP)
        tell(f"writing {rows} rows of {columns} columns")
        write_table(table, rows=rows, columns=columns)
        size = table.stat().st_size
        found: dict[str, list[dict[str, float]]] = {name: [] for name in SCRIPTS}
        for repeat in range(repeats):
            for name in SCRIPTS:
                tell(f"reading by {name}, {repeat + 1} of {repeats}")
                found[name].append(_measured(name, small, table))
    medians = {
        name: {key: statistics.median(one[key] for one in measured) for key in ("seconds", "bytes")}
        for name, measured in found.items()
    }
    # A small table may fit into memory that the process has anyway.
    ratio = {key: medians["fenchel"][key] / max(medians["arrow"][key], 1e-9) for key in ("seconds", "bytes")}
    return {"rows": rows, "columns": columns, "file_bytes": size, **medians, "ratio": ratio}


def _measured(name: str, small: Path, table: Path) -> dict[str, float]:
    command = [sys.executable, "-c", SCRIPTS[name] + MEASURE, str(small), str(table)]
    measured: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return measured
