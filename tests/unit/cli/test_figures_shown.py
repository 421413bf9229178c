"""The figures of rounds and runs on the operator's screen."""

import io
import math
import re
from typing import Any

import pytest

from fenchel_common.ids import ClientId, RoundId
from fenchel_common.metrics import LastCertificate, RoundMetrics, last_certificate
from fenchel_deploy.cli import demonstration, runs, server
from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.liveview import lines_of
from fenchel_deploy.cli.story import RunStory
from fenchel_deploy.keys import key_in_words
from fenchel_server.release import ReleaseSummary
from fenchel_server.rounds.ledger import Traffic
from fenchel_server.rounds.outcome import ClientTotals, RunOutcome
from fenchel_server.store import RoundRecord

STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO ")
NOTHING = ClientTotals(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0)


def round_event(round_id: int, **figures: float | None) -> dict[str, Any]:
    known = dict.fromkeys(("primal", "dual", "gap", "accuracy")) | figures
    rest = {"closing": False, "figures": {}, "seconds": 1.5, "costs": {"seconds": {"total": 1.5}}, "absences": {}}
    return {"event": "round", "run": "run-1", "round": round_id, **known, **rest}


def outcome(certificate: LastCertificate) -> RunOutcome:
    return RunOutcome(
        rounds=7,
        rtc_per_round=3,
        certificate=certificate,
        seconds={"total": 2.0},
        bytes=Traffic(up=1234, down=5),
        clients_detail={ClientId("north"): NOTHING},
        undelivered={},
        release=ReleaseSummary(whole=False, reason="nobody answered", noise=None),
    )


@pytest.mark.parametrize(
    ("figures", "shown"),
    [
        ({"primal": 0.5, "dual": 0.25, "gap": 0.25, "accuracy": 0.75}, ", gap 2.500e-01, accuracy 0.7500"),
        ({"primal": 0.5, "accuracy": 0.75}, ", P(w) 0.500000, accuracy 0.7500"),
        ({}, ""),
    ],
    ids=["certified", "objective alone", "not measured"],
)
def test_the_server_shows_what_a_round_measured(
    figures: dict[str, float], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server._print_lines(round_event(4, **figures))
    line = capsys.readouterr().out
    assert STAMP.match(line)
    assert STAMP.sub("", line) == f"run run-1: round 4, 1.50 s{shown}\n"


def test_the_server_shows_the_outcome_of_a_run_that_diverged(capsys: pytest.CaptureFixture[str]) -> None:
    ended: dict[str, Any] = {"event": "ended", "run": "run-1", "name": "trial", "status": "diverged", "reason": "why"}
    ended |= {"key_bits": 2048, "privacy": "sealed", "cipher": "paillier"}
    server._print_lines(ended | {"outcome": outcome(LastCertificate(primal=math.inf, gap=math.nan)).to_mapping()})
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["objective P(w)", "inf"] in rows
    assert ["lower bound D(α)", "–"] in rows
    assert ["duality gap, the proof", "nan"] in rows
    assert ["rounds × round trips", "7 × 3"] in rows
    assert ["model", "not released: nobody answered"] in rows
    assert ["bytes up", "1,234"] in rows


def test_the_view_of_a_training_keeps_the_figures_of_the_last_round_that_measured_its_model() -> None:
    story = RunStory("toy")
    story.tell(round_event(4, primal=0.5, dual=0.25, gap=0.25, accuracy=0.75))
    story.tell(round_event(5))
    assert "round 5, gap 2.500e-01, accuracy 0.7500" in [line.plain for line in lines_of(story, width=80)]


def test_the_report_of_a_training_that_diverged_is_shown() -> None:
    diverged = outcome(LastCertificate()).to_mapping()
    figures = ("primal", "centralized_primal", "accuracy", "centralized_accuracy", "relative_error")
    report = diverged | dict.fromkeys(figures, math.nan)
    report |= {"privacy": "sealed", "dataset": "digits", "clients": 1, "certified": True, "gap": "nan"}
    report |= {"rmse": None, "r2": None, "lambda": 0.01}
    report |= {"server_saw": {}, "status": "diverged", "reason": "why"}
    console = PlainConsole(file=io.StringIO(), width=200)
    demonstration.print_report(console, report)
    assert isinstance(console.file, io.StringIO)
    assert "duality gap, the proof" in console.file.getvalue()


@pytest.mark.parametrize(
    ("figures", "headings", "cells"),
    [
        ({}, ["accuracy"], ["0.75"]),
        ({"rmse": 12.5}, ["RMSE"], ["12.5"]),
        ({"rmse": 0.5, "r2": 0.75}, ["RMSE", "R²"], ["0.5", "0.75"]),
    ],
    ids=["classes", "numbers", "standardised numbers"],
)
def test_runs_show_has_the_measure_that_fits_the_labels(
    figures: dict[str, float], headings: list[str], cells: list[str]
) -> None:
    metrics = RoundMetrics(RoundId(1), primal=0.5, accuracy=None if figures else 0.75, figures=figures)
    before = RoundMetrics(RoundId(0), primal=0.9)
    rounds = tuple(
        RoundRecord(one.round, one.to_json(), (), bytes_up=1, bytes_down=2, seconds={"total": 1.0})
        for one in (before, metrics)
    )
    console = PlainConsole(file=io.StringIO(), width=200)
    console.print(runs._rounds_table(rounds))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    rows = [
        [cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]]
        for line in lines
        if "│" in line or "┃" in line
    ]
    assert rows[0][4:-4] == headings
    assert rows[1][4:-4] == ["–"] * len(headings)
    assert rows[2][4:-4] == cells


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"rmse": 12.5}, "RMSE 12.5"),
        ({"rmse": 0.5, "r2": 0.75}, "RMSE 0.5 standard deviations, R² 0.7500"),
    ],
)
def test_a_round_of_regression_tells_its_error(figures: dict[str, float], words: str) -> None:
    metrics = RoundMetrics(RoundId(3), primal=0.5, gap=0.1, figures=figures)
    assert metrics.fit == words
    certificate = last_certificate([metrics])
    assert (certificate.accuracy, certificate.rmse, certificate.r2) == (None, figures["rmse"], figures.get("r2"))


@pytest.mark.parametrize(
    ("bits", "cipher", "words"),
    [
        (3072, "paillier", "paillier, 3072 bits"),
        (None, "paillier", "paillier, no key yet: the set-up is not over"),
        (None, "masks", "masks, with keys that only parties have"),
        (None, None, "none: PLAINTEXT"),
    ],
)
def test_only_a_run_in_clear_is_called_plaintext(bits: int | None, cipher: str | None, words: str) -> None:
    assert key_in_words(bits, cipher=cipher) == words
