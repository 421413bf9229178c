"""`fenchel demo` as a person or a script runs it."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

from fenchel_common.model import read_model
from support.commands import run_fenchel

FENCHEL = str(Path(sys.executable).parent / "fenchel")
KEYS = {
    "primal",
    "dual",
    "gap",
    "centralized_primal",
    "relative_error",
    "accuracy",
    "centralized_accuracy",
    "rounds",
    "rtc_per_round",
    "clients",
    "key_bits",
    "privacy",
    "seconds",
    "bytes",
}


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FENCHEL, "demo", *arguments], capture_output=True, text=True, check=False, timeout=280)


def test_the_demo_proves_that_it_is_within_a_thousandth_of_the_centralized_optimum() -> None:
    result = demo("--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert set(report) >= KEYS
    assert 0 <= report["relative_error"] <= 1e-3
    true_error = report["primal"] - report["centralized_primal"]
    assert report["gap"] >= true_error
    assert report["dual"] <= report["centralized_primal"] <= report["primal"]
    assert (report["clients"], report["rtc_per_round"], report["key_bits"]) == (4, 3, 2048)
    assert report["scores"]["samples"] == 569
    assert report["scores"]["accuracy"] == report["accuracy"]
    assert abs(report["scores"]["auc"] - report["centralized_scores"]["auc"]) <= 0.005
    assert 0 < report["scores"]["auc_error"] < 0.001
    seconds = dict(report["seconds"])
    total = seconds.pop("total")
    assert sum(seconds.values()) == pytest.approx(total, rel=0.02)
    assert report["server_saw"]["signed sums of each party's rows inside the margin"] == "ciphertext"
    assert report["privacy"] == "sealed"
    assert report["bytes"]["up"] > 0
    assert report["bytes"]["down"] > 0
    told = [json.loads(line)["event"] for line in result.stderr.splitlines()]
    assert (told[0], told.count("begins"), told.count("ready"), told.count("ended")) == ("centralized", 1, 1, 1)


def test_regression_reaches_the_centralized_optimum_over_real_processes() -> None:
    result = demo("--dataset", "diabetes", "--loss", "squared", "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert 0 <= report["primal"] - report["centralized_primal"] <= report["gap"]
    assert 0 <= report["relative_error"] <= 1e-3
    assert (report["accuracy"], report["centralized_accuracy"], report["privacy"]) == (None, None, "sealed")
    assert report["rmse"] == pytest.approx(report["centralized_rmse"], rel=1e-2)
    assert report["figures"]["rmse"] == pytest.approx(report["rmse"], rel=1e-4)
    assert report["scores"]["rmse"] == pytest.approx(report["rmse"], rel=1e-4)
    assert report["scores"]["r2"] == pytest.approx(report["r2"], abs=1e-4)


def test_a_table_is_for_people_and_a_run_in_clear_is_stamped() -> None:
    result = demo("--privacy", "plain", "--grid", "1x2", "--loss", "logistic", "--lambda", "0.1")
    assert result.returncode == 0, result.stderr
    assert "PLAINTEXT" in result.stdout
    assert "What the server saw" in result.stdout
    assert "relative error" in result.stdout
    assert "the model is not kept; with --keep DIR" in result.stdout


def test_a_goal_that_is_missed_is_exit_code_1_with_the_figures_and_a_page_shows_the_run() -> None:
    words = ("--privacy", "plain", "--grid", "1x2", "--rounds", "3", "--gap", "1e-9", "--format", "json")
    command = [FENCHEL, "demo", *words, "--dashboard"]
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        address = next(event["address"] for event in events if event["event"] == "dashboard")
        with urlopen(f"{address}api/runs") as answer:  # noqa: S310 - an address on this machine
            assert [run["name"] for run in json.load(answer)["runs"]] == ["demo"]
        printed, _ = process.communicate(timeout=280)
    assert process.returncode == 1
    assert json.loads(printed)["gap"] > 1e-9
    with pytest.raises(URLError):
        urlopen(address)  # noqa: S310


def test_unlike_parties_come_with_the_figures_of_the_algorithm() -> None:
    arguments = ("--algorithm", "scaffpd", "--loss", "logistic", "--grid", "3x1", "--split", "dirichlet:0.3")
    result = demo(*arguments, "--privacy", "plain", "--rounds", "3", "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert set(report) >= KEYS
    figures = report["figures"]
    assert set(figures) == {"average_accuracy", "worst_20_accuracy", "best_20_accuracy", "largest_weight"}
    assert 0.0 < figures["worst_20_accuracy"] < figures["average_accuracy"] < figures["best_20_accuracy"] <= 1.0
    assert 1.0 / 3.0 < figures["largest_weight"] < 1.0


def test_a_file_of_ones_own_can_be_used_and_the_state_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    np.savez(tmp_path / "mine.npz", X=X, y=(X[:, 0] > 0).astype(int))
    kept = tmp_path / "kept"
    arguments = ("--dataset", str(tmp_path / "mine.npz"), "--grid", "2x1", "--columns", "shuffled", "--lambda", "0.1")
    result = demo(*arguments, "--privacy", "plain", "--keep", str(kept), "--format", "json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["rtc_per_round"] == 2
    parts = [read_model(Path(path)).record for path in report["models"]]
    assert [part.party for part in parts] == ["hospital-1", "hospital-2"]
    for part in parts:
        assert part.figures is not None
        assert asdict(part.figures) | {"calibration": []} == report["scores"]
        assert part.own_figures is not None
        assert part.own_figures.auc_error == 0.0
    assert sum(part.own_figures.samples for part in parts if part.own_figures is not None) == 60
    assert (kept / "server" / "state.db").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--grid", "two"], "--grid"),
        (["--grid", "2x99"], "grid"),
        (["--split", "dirichlet:none"], "split"),
        (["--split", "dirichlet:0.1", "--grid", "2x2"], "split"),
        (["--columns", "sorted"], "--columns"),
        (["--loss", "cubic"], "loss"),
        (["--lambda", "-1"], "lambda"),
        (["--participation", "some"], "participation"),
        (["--local", "guess"], "--local"),
        (["--privacy", "none"], "--privacy"),
        (["--dataset", "iris"], "dataset"),
        (["--key-bits", "1024"], "bits"),
        (["--h", "many"], "--h"),
    ],
)
def test_bad_input_is_refused_with_exit_code_2_and_the_option_named(arguments: list[str], named: str) -> None:
    result = run_fenchel("demo", *arguments)
    assert result.exit_code == 2, result.stderr
    assert named in result.stderr
    assert "Traceback" not in result.stderr
