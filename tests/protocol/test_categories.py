"""Categories and missing cells become the same features at every holder, and the model is that of the pooled table."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fenchel_client.alignment.vocabularies import ALTERED
from fenchel_client.party import Party
from fenchel_client.task import Handler, Task
from fenchel_common.data.categories import MISSING, Category
from fenchel_common.data.shard import Shard
from fenchel_common.ids import ClientId
from fenchel_common.losses import LOSSES
from fenchel_common.model import find_model, read_model
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_common.runsections import FeaturesConfig
from fenchel_common.wire.alignment import AlignmentMethod, start_to_bytes
from fenchel_common.wire.vocabulary import start_vocabularies_from_bytes
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.folders import whole_model
from fenchel_deploy.tablefolder import pooled
from fenchel_server.store import RunStatus
from support.federation import InProcessFederation, handler_of
from support.tables import small_dataset

Array = NDArray[np.float64]

FIRST = ClientId("p1")
LAMBDA, GAP = 0.1, 1e-4
DATA = small_dataset(90, 4)
NUMBERS = np.asarray(DATA.X, dtype=np.float64) * [1.0, 50.0, 0.1, 7.0] + [0.0, 200.0, 5.0, 1.0]
NORTH, SOUTH = range(45), range(45, 90)
RARE = "a value of two persons"


def pains() -> list[str | None]:
    """Of 45 rows in the north: 30 dull, 10 sharp, 2 rare, 3 missing; in the south: 20 burning, 19 dull, 6 sharp."""
    north = ["dull"] * 30 + ["sharp"] * 10 + [RARE] * 2 + [None] * 3
    south = ["burning"] * 20 + ["dull"] * 19 + ["sharp"] * 6
    rng = np.random.default_rng(5)
    return [*rng.permutation(np.array(north, dtype=object)), *rng.permutation(np.array(south, dtype=object))]


PAINS = pains()
SEXES: list[str | None] = ["f" if row % 3 else "m" for row in range(90)]


def category(column: str, cells: list[str | None], rows: range, *, listed: bool = False) -> Category:
    values = tuple(dict.fromkeys(cell for row in rows if (cell := cells[row]) is not None))
    codes = [MISSING if (cell := cells[row]) is None else values.index(cell) for row in rows]
    return Category(column, values, np.array(codes, dtype=np.int32), listed)


def held(rows: range, columns: list[int], categories: Mapping[str, list[str | None]], *, labels: bool) -> Shard:
    X = NUMBERS[np.ix_(list(rows), columns)]
    return Shard(
        tuple(f"s{row}" for row in rows),
        tuple(DATA.features[column] for column in columns),
        X,
        DATA.y[list(rows)] if labels else None,
        categories=tuple(category(name, cells, rows) for name, cells in categories.items()),
    )


def two_sites() -> dict[str, Shard]:
    """Two clinics with labels and the same columns, and a lab that knows the patients of both."""
    return {
        "p1": held(NORTH, [0, 1], {"pain": PAINS}, labels=True),
        "p2": held(SOUTH, [0, 1], {"pain": PAINS}, labels=True),
        "p3": held(range(90), [2, 3], {"sex": SEXES}, labels=False),
    }


def config(**changes: object) -> RunConfig:
    values: dict[str, object] = {
        "name": "test",
        "privacy": "plain",
        "benchmark": True,
        "key": {"bits": 2048},
        "alignment": "hmac",
        "settings": {"lambda": LAMBDA},
        "stop": {"gap": GAP},
        "features": {},
    }
    return RunConfig.from_mapping(values | changes)


def one_hot(cells: list[str | None], value: str) -> Array:
    return np.array([np.nan if cell is None else float(cell == value) for cell in cells])


def pooled_table(*, indicators: bool) -> dict[str, Array]:
    """The prepared columns of the pooled table by the names of their features, made by hand."""
    columns = {
        name: (column - column.mean()) / column.std() for name, column in zip(DATA.features, NUMBERS.T, strict=True)
    }
    flags = {f"pain={value}": one_hot(PAINS, value) for value in ("burning", "dull", "sharp")}
    flags["pain is other"] = one_hot(PAINS, RARE)
    flags |= {f"sex={value}": one_hot(SEXES, value) for value in ("f", "m")}
    if indicators:
        flags["pain is missing"] = np.array([float(cell is None) for cell in PAINS])
    columns |= {name: np.nan_to_num(flag - np.nanmean(flag), nan=0.0) for name, flag in flags.items()}
    return {name: columns[name] for name in sorted(columns)}


def check(directory: Path, expected: Mapping[str, Array]) -> None:
    names, X = list(expected), np.column_stack(list(expected.values()))
    w = whole_model(map(read_model, directory.glob("*/*.model")), names)
    best = solve_centralized(X, DATA.y, loss=LOSSES["hinge"], lambda_=LAMBDA)
    assert best.primal - 1e-9 <= primal(X, DATA.y, w, loss=LOSSES["hinge"], lambda_=LAMBDA) <= best.primal + 2 * GAP


def features_of(directory: Path, name: str) -> list[str]:
    return sorted(find_model(directory / name).names)


def check_preparation(directory: Path) -> None:
    """A model file has what prepares a new sample; the scale of a feature of 0 and 1 is 1."""
    (found,) = [one for one in find_model(directory / "p1").record.features if one.name == "pain=dull"]
    dull = float(np.nanmean(one_hot(PAINS, "dull")))
    assert found.shift == found.missing == pytest.approx(dull, rel=1e-12)
    assert (found.kind, found.column, found.value, found.scale) == ("category", "pain", "dull", 1.0)


@pytest.mark.parametrize("indicators", [False, True])
def test_the_model_is_that_of_the_pooled_table_with_the_union_of_the_values(tmp_path: Path, indicators: bool) -> None:
    run = InProcessFederation(
        tmp_path, two_sites(), config(features={"indicators": indicators}), release_model_to_server=False
    )
    assert run.drive().status is RunStatus.COMPLETED
    expected = pooled_table(indicators=indicators)
    check(tmp_path, expected)
    clinic = sorted(name for name in expected if name.startswith("pain") or name in DATA.features[:2])
    assert features_of(tmp_path, "p1") == features_of(tmp_path, "p2") == clinic
    terms = FeaturesConfig(indicators=indicators)
    dataset = pooled("both", two_sites(), terms)
    assert dataset.features == tuple(expected)
    np.testing.assert_allclose(np.asarray(dataset.X), np.column_stack(list(expected.values())), atol=1e-12)
    check_preparation(tmp_path)


def overheard(handle: Handler, seen: list[bytes]) -> Handler:
    """The handler, whose tasks and results are written down."""

    def handled(task: Task) -> bytes:
        result = handle(task)
        seen.extend([task.body, result])
        return result

    return handled


@pytest.mark.parametrize("cipher", ["paillier", "masks"])
def test_a_value_of_few_persons_leaves_the_party_in_no_form(tmp_path: Path, cipher: str) -> None:
    terms = config(privacy="sealed", benchmark=False, cipher=cipher, stop={"gap": 1e-3}, features={"indicators": True})
    run = InProcessFederation(tmp_path, two_sites(), terms, release_model_to_server=False)
    seen: list[bytes] = []
    for name, party in run.parties.items():
        run.transport.restart(name, overheard(handler_of(party), seen))
    assert run.drive().status is RunStatus.COMPLETED
    for word in (RARE, "pain", "burning", "dull"):
        assert not any(word.encode() in body for body in seen)
    for folder in (tmp_path / "p2", tmp_path / "p3"):
        kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert RARE.encode() not in kept


def test_a_party_that_restarts_in_mid_run_has_the_same_features_as_before(tmp_path: Path) -> None:
    shards = two_sites()
    run = InProcessFederation(tmp_path, shards, config(features={"indicators": True}), release_model_to_server=False)
    restarted: list[int] = []

    def restart(phase: object) -> None:
        if getattr(phase, "round", 0) == 2 and not restarted:
            restarted.append(2)
            old = run.parties[FIRST]
            fresh = Party(old._live_kit, shards["p1"], state=tmp_path / "p1", consent=old._consent)
            run.transport.restart(FIRST, handler_of(fresh))

    run.transport.after_phase = restart
    assert run.drive().status is RunStatus.COMPLETED
    assert restarted
    check(tmp_path, pooled_table(indicators=True))


def test_sparse_tables_have_the_same_features_and_keep_their_zeros(tmp_path: Path) -> None:
    shards = {name: replace(shard, X=csr_array(shard.X)) for name, shard in two_sites().items()}
    run = InProcessFederation(
        tmp_path, shards, config(features={"scale": "rms", "indicators": True}), release_model_to_server=False
    )
    assert run.drive().status is RunStatus.COMPLETED
    expected = {
        name: column / np.sqrt((column**2).mean()) for name, column in zip(DATA.features, NUMBERS.T, strict=True)
    }
    for name in pooled_table(indicators=True).keys() - set(DATA.features):
        column, _, value = name.partition("=")
        cells = SEXES if column == "sex" else PAINS
        flag = one_hot(cells, value or RARE)
        expected[name] = np.where(np.isnan(flag), np.nanmean(flag), flag)
    expected["pain is missing"] = np.array([float(cell is None) for cell in PAINS])
    check(tmp_path, expected)


def test_without_features_values_must_be_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    terms = config(features=None, stop={"gap": GAP, "rounds": 2})
    shards = two_sites() | {"p1": held(NORTH, [0, 1], {}, labels=True), "p2": held(SOUTH, [0, 1], {}, labels=True)}
    refused = InProcessFederation(tmp_path / "one", shards, terms, release_model_to_server=False).drive()
    assert "p3 (refused: its data do not fit this run)" in refused.reason
    assert "column 'sex': is a category without values in shard.toml" in caplog.text
    listed = replace(shards["p3"], categories=(category("sex", SEXES, range(90), listed=True),))
    run = InProcessFederation(tmp_path / "two", shards | {"p3": listed}, terms, release_model_to_server=False)
    run.drive()
    assert features_of(tmp_path / "two", "p3")[-2:] == ["sex=f", "sex=m"]


@pytest.mark.parametrize("lie", ["withheld", "exchanged"])
def test_vocabularies_that_the_server_withholds_or_exchanges_are_refused(tmp_path: Path, lie: str) -> None:
    run = InProcessFederation(tmp_path, two_sites(), config(), release_model_to_server=False)
    honest = handler_of(run.parties[FIRST])

    def lied_to(task: Task) -> bytes:
        if task.phase == "align_0":
            given = start_vocabularies_from_bytes(task.body)
            one, other, *rest = given
            changed = {one: given[other], other: given[one], **{name: given[name] for name in rest}}
            if lie == "withheld":
                changed = {one: given[one]}
            task = replace(task, body=start_to_bytes(AlignmentMethod.HMAC, changed))
        return honest(task)

    run.transport.restart(FIRST, lied_to)
    assert ALTERED in run.drive().reason
