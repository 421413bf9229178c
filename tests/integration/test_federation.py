"""A federation of real processes: mutual TLS, 2048-bit keys, SQLite, processes killed at every phase."""

import json
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fenchel_common.algorithms.dual import PRODUCT_FORMAT
from fenchel_common.data.shard import Shard
from fenchel_common.losses import LOSSES
from fenchel_common.objectives import primal
from fenchel_common.runconfig import RunConfig
from fenchel_deploy import local
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.experiments.centralized import solve_centralized
from fenchel_deploy.local import LocalFederation
from fenchel_server.store import SqliteStore
from support.federation import calm_model
from support.kills import kill_client, kill_server
from support.tables import named_shards, small_dataset

LAMBDA = 0.05
DATASET = small_dataset()


def run_config(**changes: Any) -> RunConfig:
    settings: dict[str, object] = {"loss": "hinge", "lambda": LAMBDA, "local": "paper", "certificate_every": 3}
    values: dict[str, object] = {
        "name": "test",
        "acknowledge_row_leak": True,
        "settings": settings | changes.pop("settings", {}),
        "key": {"bits": 2048},
        "round": {"deadline_s": 30.0, "quorum": 0.5, "wait_s": 60.0},
        "stop": {"gap": 1e-4, "rounds": 300},
    }
    return RunConfig.from_mapping(values | changes)


def events_of(federation: LocalFederation) -> list[dict[str, Any]]:
    return list(federation.events())


def ended(events: list[dict[str, Any]]) -> dict[str, Any]:
    (event,) = [event for event in events if event["event"] == "ended"]
    return event


def phases_by_round(events: list[dict[str, Any]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for event in events:
        if event["event"] == "phase":
            found.setdefault(event["round"], []).append(event["phase"])
    return found


def test_a_hybrid_federation_reaches_the_certified_optimum_and_leaks_nothing_to_the_server(tmp_path: Path) -> None:
    shards = named_shards(DATASET, grid=(2, 2))
    with LocalFederation(tmp_path, shards, run_config(privacy="sealed")) as federation:
        events = events_of(federation)
        codes = federation.wait()
        weights = federation.model(DATASET.features)
    assert set(codes.values()) == {0}, federation.log("server")
    final = ended(events)
    assert final["status"] == "completed"
    assert (final["key_bits"], len(final["key_fingerprint"])) == (2048, 64)
    optimum = solve_centralized(DATASET.X, DATASET.y, loss=LOSSES["hinge"], lambda_=LAMBDA)
    reached = primal(DATASET.X, DATASET.y, weights, loss=LOSSES["hinge"], lambda_=LAMBDA)
    certificate = final["outcome"]["certificate"]
    assert certificate["gap"] <= 1e-4
    assert 0 <= reached - optimum.primal + 1e-9 <= certificate["gap"] + 1e-9
    assert certificate["primal"] == pytest.approx(reached, abs=1e-7)
    rounds = phases_by_round(events)
    complete = [rounds[number] for number in sorted(rounds) if number > 0][:-1]
    assert all(phases == ["inner_product", "local_dual", "primal"] for phases in complete)
    assert final["outcome"]["rtc_per_round"] == 3
    _assert_nothing_private_at_the_server(tmp_path, shards, weights)


def _assert_nothing_private_at_the_server(
    directory: Path, shards: Mapping[str, Shard], weights: NDArray[np.float64]
) -> None:
    seen = b"".join(path.read_bytes() for path in (directory / "server").rglob("*") if path.is_file())
    seen += (directory / "logs" / "server.log").read_bytes()
    ids = {sample_id for shard in shards.values() for sample_id in shard.ids}
    assert not any(sample_id.encode() in seen for sample_id in ids)
    for shard in shards.values():
        for value in np.asarray(shard.X)[:20].ravel():
            assert value.astype("<f8").tobytes() not in seen
            assert PRODUCT_FORMAT.quantise(np.array([value])).tobytes() not in seen
    for weight in weights:
        assert weight.tobytes() not in seen
        assert PRODUCT_FORMAT.quantise(np.array([weight])).tobytes() not in seen
    for client in (directory / "clients").iterdir():
        assert {path.suffix for path in client.iterdir()} == {".model", ".json", ".csv"}, (
            "the run's key is gone when the run is over"
        )


def round_of(grid: tuple[int, int]) -> list[str]:
    """The phases of a round; if every party has all features, nobody has to be told inner products."""
    return ["local_dual", "primal"] if grid[1] == 1 else ["inner_product", "local_dual", "primal"]


def assert_same_model_at_two_levels(
    directory: Path, grid: tuple[int, int], privacy: str, other: str, **changes: Any
) -> None:
    """The run of real processes at one level ends with the model of one in this process at the other level.

    All round to the same fixed point, so the bound on their difference is zero.
    """
    shards = named_shards(DATASET, grid=grid)

    def config(level: str) -> RunConfig:
        return run_config(privacy=level, benchmark=level == "plain", alignment="hmac", **changes)

    with LocalFederation(directory / "processes", shards, config(privacy)) as federation:
        events = events_of(federation)
        federation.wait()
        model = federation.model(DATASET.features)
    rounds = phases_by_round(events)
    *others, last = sorted(rounds)[1:-1]
    assert all(rounds[number] == round_of(grid) for number in others)
    # With corrective steps the last round measures the model.
    measured = ["measured"] if changes.get("settings") == CORRECTIVE else []
    assert rounds[last] == [*round_of(grid), *measured]
    assert ended(events)["outcome"]["rtc_per_round"] == len(round_of(grid))
    assert np.abs(model).max() > 0
    assert (model == calm_model(directory / "other", shards, config(other), DATASET.features)).all()


@pytest.mark.parametrize(
    ("grid", "privacy", "other"),
    [((2, 2), "sealed", "plain"), ((2, 1), "paper", "plain"), ((1, 2), "sealed", "paper")],
    ids=["hybrid", "horizontal", "vertical"],
)
def test_runs_of_one_seed_agree_to_the_last_bit_at_every_privacy_level(
    tmp_path: Path, grid: tuple[int, int], privacy: str, other: str
) -> None:
    assert_same_model_at_two_levels(tmp_path, grid, privacy, other, stop={"gap": 1e-9, "rounds": 7}, seed=5)


def undisturbed_model(directory: Path, config: RunConfig) -> NDArray[np.float64]:
    return calm_model(directory, named_shards(DATASET, grid=(2, 2)), config, DATASET.features)


def until(events: Iterator[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """Reads on to the first event that has these values."""
    for event in events:
        if all(event.get(name) == value for name, value in wanted.items()):
            return event
    raise AssertionError(f"the server ended before {wanted}")


def test_a_server_killed_at_every_phase_ends_with_the_same_model(tmp_path: Path) -> None:
    config = run_config(privacy="sealed", stop={"gap": 1e-9, "rounds": 8}, seed=3)
    expected = undisturbed_model(tmp_path / "undisturbed", config)
    moments: list[dict[str, Any]] = [
        {"event": "phase", "round": 0, "phase": "key_take"},
        {"event": "phase", "round": 0, "phase": "blind_2"},
        {"event": "phase", "round": 2, "phase": "inner_product"},
        {"event": "phase", "round": 3, "phase": "local_dual"},
        {"event": "phase", "round": 4, "phase": "primal"},
        {"event": "round", "round": 5},
    ]
    with LocalFederation(tmp_path / "killed", named_shards(DATASET, grid=(2, 2)), config) as federation:
        for moment in moments:
            until(federation.events(), **moment)
            kill_server(federation)
            federation.start_server()
        events = events_of(federation)
        codes = federation.wait()
        model = federation.model(DATASET.features)
    assert set(codes.values()) == {ExitCode.DONE, ExitCode.EXHAUSTED}
    assert ended(events)["outcome"]["rounds"] == 8
    assert (model == expected).all()


def test_clients_killed_at_every_phase_rejoin_and_the_run_reaches_the_optimum(tmp_path: Path) -> None:
    config = run_config()
    moments = [("p1", 2, "inner_product"), ("p2", 4, "local_dual"), ("p3", 6, "primal"), ("p4", 0, "blind_3")]
    with LocalFederation(tmp_path, named_shards(DATASET, grid=(2, 2)), config) as federation:
        for name, round_id, phase in sorted(moments, key=lambda moment: moment[1]):
            until(federation.events(), event="phase", round=round_id, phase=phase)
            kill_client(federation, name)
            federation.start_client(name)
        final = ended(events_of(federation))
        codes = federation.wait()
    assert final["status"] == "completed"
    assert final["outcome"]["certificate"]["gap"] <= 1e-4
    assert set(codes.values()) == {0}


def test_a_client_that_never_comes_back_is_left_out_with_its_reason_on_record(tmp_path: Path) -> None:
    config = run_config(stop={"gap": 1e-9, "rounds": 12}, round={"deadline_s": 5.0, "quorum": 0.5, "wait_s": 30.0})
    shards = named_shards(DATASET, grid=(2, 2))
    with LocalFederation(tmp_path, shards, config, server_options=["--farewell", "0"]) as federation:
        until(federation.events(), event="phase", round=3, phase="local_dual")
        kill_client(federation, "p4")
        final = ended(events_of(federation))
        codes = federation.wait()
    assert final["status"] == "exhausted"
    assert {name: code for name, code in codes.items() if code} == {
        "server": ExitCode.EXHAUSTED,
        "p4": -signal.SIGKILL,
    }
    with SqliteStore.inspect(federation.state) as store:
        rounds = store.rounds(store.runs()[0].run)
    assert any(absence.client == "p4" and absence.reason for record in rounds for absence in record.absences)
    metrics = [json.loads(record.metrics) for record in rounds[4:]]
    assert all("p4" not in record["participants"] for record in metrics[1:])


def test_partial_participation_still_reaches_the_optimum(tmp_path: Path) -> None:
    for participation in ("fraction:0.5", "cyclic:2"):
        config = run_config(settings={"participation": participation}, stop={"gap": 3e-3, "rounds": 400})
        with LocalFederation(tmp_path / participation[:5], named_shards(DATASET, grid=(2, 2)), config) as federation:
            final = ended(events_of(federation))
            federation.wait()
        assert final["outcome"]["certificate"]["gap"] <= 3e-3, participation


def stopped_run(directory: Path, shards: Mapping[str, Shard], **changes: Any) -> tuple[dict[str, Any], LocalFederation]:
    with LocalFederation(directory, shards, run_config(**changes)) as federation:
        final = ended(events_of(federation))
        federation.wait()
    return final, federation


def relabelled(shard: Shard, value: float) -> Shard:
    return Shard(shard.ids, shard.features, shard.X, np.full(len(shard.ids), value))


def test_labels_that_the_loss_cannot_take_stop_the_run_and_only_their_party_hears_why(tmp_path: Path) -> None:
    shards = named_shards(DATASET, grid=(2, 2))
    shards["p2"] = relabelled(shards["p2"], 3.0)
    final, federation = stopped_run(tmp_path, shards)
    assert final["status"] == "stopped"
    assert "p2 (refused: its data do not fit this run)" in final["reason"]
    assert re.search(r"label", federation.log("p2"))
    assert "label" not in final["reason"] + federation.log("server")


def test_parties_that_did_not_consent_to_a_weaker_run_stop_it_before_any_key_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "consenting_options", lambda _config: ["--approve-roster", "kit"])
    final, federation = stopped_run(tmp_path, named_shards(DATASET, grid=(1, 2)), alignment="hmac")
    assert final["status"] == "stopped"
    assert "p2 (refused: its operator does not accept: 2048-bits, hmac)" in final["reason"]
    assert "if you agree to that, start the client with --accept 2048-bits --accept hmac" in federation.log("p2")
    assert not list((tmp_path / "clients").glob("*/*.run"))


def test_shards_without_common_samples_are_refused_with_the_cure(tmp_path: Path) -> None:
    shards = named_shards(DATASET, grid=(1, 2))
    other = shards["p2"]
    shards["p2"] = Shard(tuple(f"other-{name}" for name in other.ids), other.features, other.X, other.y)
    final, _ = stopped_run(tmp_path, shards)
    assert final["status"] == "failed"
    assert "no two parties hold a common sample" in final["reason"]
    assert "table-" not in final["reason"]


CORRECTIVE = {"local": "corrective", "certificate_every": 1}


@pytest.mark.parametrize("grid", [(2, 2), (2, 1), (1, 2)], ids=["hybrid", "horizontal", "vertical"])
def test_corrective_runs_agree_to_the_last_bit_encrypted_and_in_clear(tmp_path: Path, grid: tuple[int, int]) -> None:
    stop = {"gap": 1e-9, "rounds": 4}
    assert_same_model_at_two_levels(tmp_path, grid, "paper", "plain", settings=CORRECTIVE, stop=stop)


def test_a_corrective_run_survives_a_killed_server_with_the_same_model_and_killed_clients_rejoin(
    tmp_path: Path,
) -> None:
    config = run_config(settings=CORRECTIVE, stop={"gap": 1e-9, "rounds": 6}, seed=3)
    expected = undisturbed_model(tmp_path / "undisturbed", config)
    with LocalFederation(tmp_path / "killed", named_shards(DATASET, grid=(2, 2)), config) as federation:
        for round_id, phase in ((2, "inner_product"), (3, "local_dual"), (4, "primal")):
            until(federation.events(), event="phase", round=round_id, phase=phase)
            kill_server(federation)
            federation.start_server()
        events_of(federation)
        assert set(federation.wait().values()) == {ExitCode.DONE, ExitCode.EXHAUSTED}
        model = federation.model(DATASET.features)
    assert (model == expected).all()
    with LocalFederation(
        tmp_path / "rejoined", named_shards(DATASET, grid=(2, 2)), run_config(settings=CORRECTIVE)
    ) as federation:
        until(federation.events(), event="phase", round=2, phase="local_dual")
        kill_client(federation, "p2")
        federation.start_client("p2")
        final = ended(events_of(federation))
        federation.wait()
    assert final["outcome"]["certificate"]["gap"] <= 1e-4
