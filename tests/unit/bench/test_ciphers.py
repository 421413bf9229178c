"""What `fenchel bench run` makes of its measurements, and what it refuses."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fenchel_common.errors import InvalidInput
from fenchel_common.privacy import Privacy
from fenchel_deploy.bench import ciphers
from fenchel_deploy.bench.ciphers import CipherBench, Installation, Measured, Meter, Subject, one_model
from fenchel_deploy.demonstration import Demonstration, DemonstrationOptions
from fenchel_deploy.local import CORES_OF_LINEAR_ALGEBRA, LocalFederation, environment_of
from support.commands import run_fenchel

RUN = Measured(
    seconds={"total": 2.0, "wire": 0.5},
    cpu_seconds={"parties": 3.0, "server": 1.0},
    bytes={"up": 600, "down": 400},
    rounds=4,
    gap=1e-4,
    setup_seconds=5.0,
    peak_memory_mib={"server": 90.0, "north": 100.0},
    model="a",
)
OLD = Installation("old", "/old/python")


@pytest.fixture(scope="module")
def demonstration() -> Demonstration:
    return Demonstration.prepare(DemonstrationOptions(grid=(1, 2)))


def slower(times: float, *, run: Measured = RUN) -> Measured:
    return replace(run, seconds={kind: times * seconds for kind, seconds in run.seconds.items()})


def rows_of(
    bench: CipherBench, monkeypatch: pytest.MonkeyPatch, measure: Callable[[Subject], Measured]
) -> tuple[list[dict[str, Any]], list[str]]:
    told: list[str] = []
    monkeypatch.setattr(CipherBench, "measured", lambda _, subject: measure(subject))
    monkeypatch.setattr(Installation, "knows", lambda _, config: config.key.kind == "standard")
    return bench.run(told.append), told


def test_ratios_are_medians_of_the_repeats_own_ratios_and_runs_alternate(
    demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine becomes slower from run to run, and both ciphers with it.
    drift = {"plain": iter([1.0, 10.0, 20.0]), "paillier": iter([3.0, 30.0, 60.0])}
    bench = CipherBench(demonstration, ["plain", "paillier"], repeats=3)
    rows, told = rows_of(bench, monkeypatch, lambda subject: slower(next(drift[subject.cipher])))
    assert [line.split(":")[0] for line in told[:3]] == ["1 of 3, plain", "1 of 3, paillier", "2 of 3, plain"]
    plain, paillier = rows
    assert plain["ratio_to_plain"] == {"seconds": 1.0, "cpu": 1.0, "bytes": 1.0}
    assert paillier["ratio_to_plain"] == {"seconds": 3.0, "cpu": 1.0, "bytes": 1.0}
    assert (plain["seconds"], paillier["seconds"]["total"]) == ({"total": 20.0, "wire": 5.0}, 60.0)
    assert (plain["cpu_seconds"], plain["bytes"]) == (RUN.cpu_seconds, RUN.bytes)
    assert {"rounds": 4, "gap": 1e-4, "setup_seconds": 5.0, "commit": "this"}.items() <= plain.items()
    assert plain["peak_memory_mib"] == {"server": 90.0, "north": 100.0}
    assert "ratio_to_against" not in plain


def test_without_a_run_in_clear_there_is_no_ratio_to_it(
    demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = rows_of(CipherBench(demonstration, ["paillier"]), monkeypatch, lambda _: RUN)
    assert rows[0]["ratio_to_plain"] is None


def test_another_installation_is_measured_in_turn_with_the_ciphers_that_it_knows(
    demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CipherBench(demonstration, ["plain", "paillier", "paillier-subgroup"], against=OLD)
    times = {("plain", "this"): 1.0, ("plain", "old"): 2.0, ("paillier", "this"): 4.0, ("paillier", "old"): 8.0}
    rows, told = rows_of(
        bench, monkeypatch, lambda subject: slower(times.get((subject.cipher, subject.installation.name), 3.0))
    )
    assert "left out: old cannot run paillier-subgroup" in told
    found = {(row["cipher"], row["commit"]): row for row in rows}
    assert list(found) == [*times, ("paillier-subgroup", "this")]
    assert found["paillier", "old"]["ratio_to_plain"]["seconds"] == 4.0
    ratios = found["paillier", "this"]["ratio_to_against"]
    assert (ratios["plain"]["seconds"], ratios["same_cipher"]["seconds"]) == (2.0, 0.5)
    assert found["paillier-subgroup", "this"]["ratio_to_against"]["same_cipher"] is None


def test_an_installation_that_knows_no_cipher_is_refused(
    demonstration: Demonstration, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="is Fenchel installed there"):
        rows_of(CipherBench(demonstration, ["paillier-subgroup"], against=OLD), monkeypatch, lambda _: RUN)


def test_an_installation_is_asked_whether_it_can_read_the_run(demonstration: Demonstration) -> None:
    config = CipherBench(demonstration, ["paillier"]).config("paillier")
    assert Installation("same", sys.executable).knows(config)
    assert not Installation("none", "/bin/false").knows(config)


def test_another_installation_decides_itself_how_many_cores_its_linear_algebra_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CORES_OF_LINEAR_ALGEBRA, "1")
    assert environment_of(sys.executable)[CORES_OF_LINEAR_ALGEBRA] == "1"
    assert CORES_OF_LINEAR_ALGEBRA not in environment_of(OLD.python)


@pytest.mark.parametrize(
    ("models", "alike"),
    [
        ([("this", "a"), ("this", "a"), ("old", "b")], True),
        ([("this", "a"), ("this", "b")], False),
        ([("this", None)], False),
    ],
)
def test_ciphers_of_one_installation_must_end_with_one_model(
    models: Sequence[tuple[str, str | None]], alike: bool
) -> None:
    assert one_model([{"commit": commit, "model": model} for commit, model in models]) is alike


def test_repeats_that_ended_with_different_models_have_none() -> None:
    assert ciphers.summary([RUN, replace(RUN, model="b")])["model"] is None


def test_the_ciphers_differ_in_nothing_else(demonstration: Demonstration) -> None:
    bench = CipherBench(demonstration, list(ciphers.CIPHERS))
    configs = {name: bench.config(name) for name in ciphers.CIPHERS}
    assert configs["plain"].privacy is Privacy.PLAIN
    assert configs["paillier-subgroup"].key.kind == "subgroup"
    assert configs["masks"].cipher == "masks"
    alike = {
        config.model_copy(
            update={"privacy": Privacy.PLAIN, "benchmark": True, "cipher": "masks", "key": configs["plain"].key}
        ).to_json()
        for config in configs.values()
    }
    assert len(alike) == 1
    assert {config.key.bits for config in configs.values()} == {2048}


def test_cpu_time_counts_from_the_first_task_of_a_round_to_the_first_of_the_last_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(ciphers, "cpu_seconds", lambda processes: next(clock) if processes == [1] else 0.0)
    monkeypatch.setattr(ciphers, "peak_memory_mib", lambda process: 10.0 * process)
    monkeypatch.setattr(time, "monotonic", lambda: 103.0)
    federation = SimpleNamespace(server=SimpleNamespace(pid=1), clients={"north": SimpleNamespace(pid=2)})
    meter = Meter(cast(LocalFederation, federation), 100.0)
    phases = [("introduce", 0), ("inner_product", 1), ("local_dual", 1)]
    for phase, round_id in phases:
        meter.observe({"event": "phase", "round": round_id, "phase": phase})
    meter.observe({"event": "round", "round": 1})
    meter.observe({"event": "phase", "round": 2, "phase": "finish"})
    meter.observe({"event": "ended"})
    assert meter.spent() == {"parties": 0.0, "server": 2.0}
    assert meter.setup_seconds == 3.0
    assert meter.peak_memory_mib == {"server": 10.0, "north": 20.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ciphers", "plain,rot13"], "--ciphers: 'rot13' is not one of: plain"),
        (["--ciphers", ","], "--ciphers: name at least one"),
        (["--grid", "2x999"], "grid: 2x999 does not fit"),
        (["--grid", "two"], "--grid: 'two'"),
        (["--dataset", "a9a", "--data", "/nowhere"], "a9a: needs a9a.npz; name the folder that has it with --data"),
        (["--dataset", "moon"], "dataset: 'moon' is not one of"),
        (["--wan", "mars"], "--wan: 'mars'"),
        (["--against", "python"], "--against: 'python' is not of the form NAME=PYTHON"),
        (["--against", "old=/nowhere/python"], "--against: there is no file /nowhere/python"),
        (["--algorithm", "scaffpd", "--grid", "2x2"], "scaffpd"),
    ],
)
def test_bad_input_is_refused_with_its_name(words: list[str], said: str) -> None:
    ended = run_fenchel("bench", "run", *words)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert ended.stdout == ""
