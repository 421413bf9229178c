"""Tables in files, with and without shard.toml."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fenchel_common.data.shard import Shard
from fenchel_common.data.tables.source import LoadedShard, load_shard

CLINIC = """\
patient,age,pain,note,label
007,63,typical,seen by A,yes
8,41.5,none,seen by B,no
9,57,typical,seen by C,no
10,52,none,seen by D,yes
"""
DECLARED = """\
file = "table.csv"
id = "patient"
leave_out = ["note"]
[label]
column = "label"
positive = "yes"
negative = "no"
[features.age]
[features.pain]
type = "category"
values = ["typical", "none"]
"""

DECLARED_PARTS = """\
file = "parts"
id = "id"
[label]
column = "y"
positive = 1
negative = -1
"""


def write_table(folder: Path, text: str | bytes, *, name: str = "table.csv", toml: str | None = None) -> Path:
    """The path of the table, which lies beside its declaration if there is one."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if toml is not None:
        (folder / "shard.toml").write_text(toml, encoding="utf-8")
    return path


def load(folder: Path, text: str | bytes, *, name: str = "table.csv", toml: str | None = None) -> LoadedShard:
    return load_shard(write_table(folder, text, name=name, toml=toml))


def write_parts(folder: Path, shard: Shard, *, files: int = 5) -> Path:
    """The folder with the shard as Parquet files of unequal lengths, and their declaration."""
    (folder / "parts").mkdir(parents=True)
    X = np.asarray(shard.X)
    columns = {"id": shard.ids, **{name: X[:, column] for column, name in enumerate(shard.features)}, "y": shard.y}
    table = pa.table(columns)
    ends = (np.linspace(0, 1, files + 1) ** 2 * len(shard.ids)).astype(int).tolist()
    for number, (start, stop) in enumerate(pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), folder / "parts" / f"{number}.parquet")
    (folder / "shard.toml").write_text(DECLARED_PARTS)
    return folder
