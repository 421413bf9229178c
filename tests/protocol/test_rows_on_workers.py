"""Rows that workers hold: the model is that of a party which has them itself, to the last bit, also if one is lost."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fenchel_client import rowpieces
from fenchel_client.table import PartyTable
from fenchel_client.terms import check_data
from fenchel_client.workers.holders import Holder
from fenchel_client.workers.nodesecret import VARIABLE, NodeSecret
from fenchel_client.workers.rowholder import RowHolder
from fenchel_common.data.tables.source import load_shard
from fenchel_common.errors import DataUnfit, InvalidInput, WrongKey
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.owntable import OwnTable
from support.federation import calm_model
from support.tablefiles import DECLARED_PARTS, write_parts
from support.tables import named_shards, small_dataset

DATA = small_dataset(150, 6)
SHARDS = named_shards(DATA, grid=(1, 2))
PIECE_ROWS = 16


class OneProcess:
    """The way to a worker, which is in this process; with `lost_every`, so many questions come to a new one each."""

    def __init__(self, lost_every: int = 0) -> None:
        self.worker, self.asked, self.lost_every = RowHolder(), 0, lost_every
        self.carried: list[bytes] = []

    def ask(self, question: bytes) -> Callable[[], bytes]:
        self.asked += 1
        if self.lost_every and self.asked % self.lost_every == 0:
            self.worker = RowHolder()
        answer = self.worker.answer(question)
        self.carried += [question, answer]
        return lambda: answer


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeSecret:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_bytes(bytes(range(32)))
    monkeypatch.setenv(VARIABLE, str(path))
    monkeypatch.setattr(rowpieces, "PIECE_ROWS", PIECE_ROWS)
    return NodeSecret.here()


def config(*, settings: dict[str, object] | None = None, **changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": 0.05, **(settings or {})},
        "stop": {"gap": None, "rounds": 4},
    }
    return RunConfig.from_mapping(values | changes)


def spread(folder: Path, links: list[OneProcess], secret: NodeSecret) -> OwnTable:
    return OwnTable(folder, lambda most: [Holder(link, secret) for link in links[:most]])


@pytest.mark.parametrize(("settings", "lost_every"), [({}, 11), ({"loss": "logistic"}, 0)])
def test_the_model_is_the_same_to_the_last_bit_as_with_one_file(
    tmp_path: Path, secret: NodeSecret, settings: dict[str, object], lost_every: int
) -> None:
    folder = write_parts(tmp_path / "data", SHARDS["p1"])
    links = [OneProcess(lost_every), OneProcess(), OneProcess()]
    table = spread(folder, links, secret).read()
    whole = calm_model(tmp_path / "one", SHARDS, config(settings=settings), DATA.features)
    found = calm_model(tmp_path / "many", SHARDS | {"p1": table}, config(settings=settings), DATA.features)
    assert np.abs(whole).max() > 0.1
    assert found.tobytes() == whole.tobytes()
    assert all(link.asked > 20 for link in links)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_of_which_an_earlier_party_gives_a_part_and_wide_rows(
    tmp_path: Path, secret: NodeSecret, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    """With more columns than are factored, the local problem is solved by conjugate gradients on chosen rows."""
    if wide:
        monkeypatch.setattr(rowpieces, "DENSE_WIDTH", 2)
    both = {"p1": SHARDS["p1"], "p2": named_shards(DATA, grid=(1, 1))["p1"]}
    folder = write_parts(tmp_path / "data", both["p2"])
    terms = config(overlap="first")
    table = spread(folder, [OneProcess(17), OneProcess()], secret).read()
    whole = calm_model(tmp_path / "one", both, terms, DATA.features)
    found = calm_model(tmp_path / "many", both | {"p2": table}, terms, DATA.features)
    assert found.tobytes() == whole.tobytes()


def test_no_value_and_no_id_is_in_clear_between_client_and_workers(tmp_path: Path, secret: NodeSecret) -> None:
    folder = write_parts(tmp_path / "data", SHARDS["p1"])
    link = OneProcess()
    spread(folder, [link], secret).read()
    told = b"".join(link.carried)
    assert np.asarray(SHARDS["p1"].X)[3, 1].tobytes() not in told
    assert SHARDS["p1"].ids[3].encode() not in told


def test_a_worker_with_another_secret_and_an_altered_answer_are_refused(tmp_path: Path, secret: NodeSecret) -> None:
    folder = write_parts(tmp_path / "data", SHARDS["p1"])
    with pytest.raises(WrongKey):
        spread(folder, [OneProcess()], NodeSecret(bytes(32))).read()

    class Altered(OneProcess):
        def ask(self, question: bytes) -> Callable[[], bytes]:
            answer = bytearray(super().ask(question)())
            answer[40] ^= 1
            return lambda: bytes(answer)

    with pytest.raises(WrongKey):
        spread(folder, [Altered()], secret).read()


def test_what_workers_cannot_hold_is_refused_with_the_reason(tmp_path: Path, secret: NodeSecret) -> None:
    folder = write_parts(tmp_path / "data", SHARDS["p1"])
    declared = folder / "shard.toml"
    declared.write_text("sparse = true\n" + DECLARED_PARTS)
    with pytest.raises(InvalidInput, match="workers hold rows of numbers alone"):
        spread(folder, [OneProcess()], secret).read()
    declared.write_text(DECLARED_PARTS.replace("parts", "parts/0.parquet"))
    with pytest.raises(InvalidInput, match="many Parquet files"):
        spread(folder, [OneProcess()], secret).read()
    declared.write_text(DECLARED_PARTS)
    table = spread(folder, [OneProcess()], secret)
    held = table.read()
    assert load_shard(folder).shard.features == held.features
    assert isinstance(held, PartyTable)
    check_data(config(), held)
    for terms in (config(settings={"local": "paper"}), config(features={})):
        with pytest.raises(DataUnfit, match="workers hold the rows"):
            check_data(terms, held)
    pq.write_table(pq.read_table(folder / "parts" / "1.parquet").slice(1), folder / "parts" / "1.parquet")
    newer = table.newer()
    assert newer is not None
    assert len(newer.ids) == len(held.ids) - 1
