"""A table that its owner replaces while a client stays."""

from pathlib import Path

import pytest

from fenchel_client.party import Party
from fenchel_client.task import Task
from fenchel_common.data.tables.source import WatchedTable, load_shard
from fenchel_common.errors import DataUnfit
from fenchel_common.identity import Kit
from fenchel_common.ids import RoundId, RunId
from fenchel_common.setup import INTRODUCE
from fenchel_deploy.owntable import OwnTable
from support.kits import make_federation

ROWS = ("id,age,label\na,1,yes\nb,2,no\n", "id,age,label\na,1,yes\nb,2,no\nc,3,no\n")


def test_a_table_is_read_again_once_it_has_changed_and_not_before(tmp_path: Path) -> None:
    table = tmp_path / "patients.csv"
    table.write_text(ROWS[0])
    watched = WatchedTable(tmp_path, load_shard)
    assert len(watched.read().shard.ids) == 2
    assert watched.newer() is None
    table.write_text(ROWS[1])
    changed = watched.newer()
    assert changed is not None
    assert changed.shard.ids == ("a", "b", "c")
    assert watched.newer() is None
    (tmp_path / "shard.toml").write_text('file = "patients.csv"\nid = "id"\nleave_out = ["label"]\n')
    declared = watched.newer()
    assert declared is not None
    assert declared.shard.y is None


def test_a_table_that_cannot_be_read_any_more_is_tried_again_at_the_next_look(tmp_path: Path) -> None:
    table = tmp_path / "patients.csv"
    table.write_text(ROWS[0])
    watched = WatchedTable(table, load_shard)
    watched.read()
    table.write_text("id,age,label\na,1,yes\na,2,no\n")
    for _ in range(2):
        with pytest.raises(Exception, match="a"):
            watched.newer()
    table.write_text(ROWS[1])
    assert watched.newer() is not None


def test_a_party_whose_changed_data_cannot_be_used_declines_the_run(tmp_path: Path) -> None:
    data = tmp_path / "patients.csv"
    data.write_text(ROWS[0])
    table = OwnTable(data)
    kit = Kit.load(make_federation(tmp_path / "federation", ("north", "south"))["north"])
    party = Party(kit, table.read(), state=tmp_path / "state", newer=table.newer)
    data.write_text(ROWS[0].replace("b,2", "b,old"))
    with pytest.raises(DataUnfit, match="no column is a feature") as refused:
        party.handle(Task(run=RunId("run-1"), round=RoundId(0), phase=INTRODUCE, body=b"", attempt=1))
    assert "feature" not in refused.value.public_reason
