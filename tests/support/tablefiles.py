"""Tables in files, with and without shard.toml."""

from pathlib import Path

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


def write_table(folder: Path, text: str | bytes, *, name: str = "table.csv", toml: str | None = None) -> Path:
    """The path of the table, which lies beside its declaration if there is one."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if toml is not None:
        (folder / "shard.toml").write_text(toml, encoding="utf-8")
    return path


def load(folder: Path, text: str | bytes, *, name: str = "table.csv", toml: str | None = None) -> LoadedShard:
    return load_shard(write_table(folder, text, name=name, toml=toml))
