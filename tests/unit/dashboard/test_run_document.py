"""The description of a run: what it says is what the store has."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fenchel_common import jsonrecord
from fenchel_common.errors import UnknownRun
from fenchel_common.ids import ClientId, RoundId
from fenchel_common.scoresums import CalibrationRow, ScoreFigures
from fenchel_deploy.dashboard.comparison import comparison_document
from fenchel_deploy.dashboard.documents import Document, plain
from fenchel_deploy.dashboard.history import Presence, RunHistory
from fenchel_deploy.dashboard.presence import members
from fenchel_deploy.dashboard.rundocument import run_document
from fenchel_deploy.dashboard.state import StateView
from fenchel_server.store import AbsenceRecord, PartyRecord
from fenchel_server.store.slices import RoundFigures
from support.stores import ABSENCE, GAP_TARGET, STEP_S, grid_layout, made_up_run

ROUNDS = 120


def item(document: Document, key: str) -> Any:
    """The part of a document with this key, as JSON has it."""
    found = plain([one for section in document.sections for one in section.items if one.key == key])
    assert isinstance(found, list)
    return found[0]


def facts(document: Document, key: str) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in item(document, key)["facts"]}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> StateView:
    directory = tmp_path_factory.mktemp("state")
    made_up_run(directory, rounds=ROUNDS, grid=(2, 2))
    return StateView(directory)


@pytest.fixture(scope="module")
def document(state: StateView) -> Document:
    return run_document(state.view("long"))


def test_the_headline_is_that_of_the_last_measured_round(document: Document) -> None:
    shown = facts(document, "headline")
    assert shown["duality gap"] == 1 / ROUNDS
    assert shown["objective P(w)"] == 0.2 + 1 / ROUNDS
    assert shown["rounds"] == ROUNDS
    assert shown["time"] == pytest.approx((ROUNDS + 1) * STEP_S)
    assert shown["traffic"] == (ROUNDS + 1) * 4 * 900


def test_the_certificate_is_said_in_words(document: Document) -> None:
    paragraphs = item(document, "certificate")["paragraphs"]
    first, second, third = (text.replace("\N{NO-BREAK SPACE}", " ") for text in paragraphs)
    assert "by more than 8.33 × 10⁻³, which is at most 4.2 % of it" in first
    assert f"Round {ROUNDS} measured P(w) = 0.208333333" in second
    assert third == "The run asked for 1.00 × 10⁻⁶: not reached so far."


def test_the_charts_have_the_values_of_every_round(document: Document) -> None:
    gap = item(document, "gap")
    assert gap["at"] == list(range(1, ROUNDS + 1))
    assert gap["series"][0]["values"] == [1 / round_id for round_id in range(1, ROUNDS + 1)]
    assert gap["goal"] == GAP_TARGET
    time = item(document, "time")
    assert sum(series["values"][0] for series in time["series"]) == pytest.approx(STEP_S)
    traffic = {series["name"]: series["values"][0] for series in item(document, "bytes")["series"]}
    assert traffic["ciphertext to the server"] == 4 * 300
    assert traffic["other to the parties"] == 4 * 200


def test_an_absence_is_on_the_map_with_its_reason(document: Document) -> None:
    chart = item(document, "participation")
    row = next(one for one in chart["series"] if one["name"] == "hospital-2")
    assert [at for at, value in zip(chart["at"], row["values"], strict=True) if value == Presence.LEFT_OUT] == [50]
    assert chart["notes"]["hospital-2/49"] == ABSENCE
    counted = {name: rest for name, *rest in chart["table"]["rows"]}
    assert counted["hospital-2"] == [ROUNDS - 1, 0, 1, f"{ABSENCE} (round 50)"]


def test_a_party_is_shown_by_what_it_does(state: StateView) -> None:
    view = state.view("long")
    now = [
        PartyRecord(ClientId("hospital-1"), True, 5.0),
        PartyRecord(ClientId("hospital-2"), False, 6.0, reason="its connection ended"),
        PartyRecord(ClientId("hospital-3"), True, 7.0, view.record.run, RoundId(3), "primal"),
    ]
    found = members(view.history, view.layout, now, view.record, {}, live=True)
    assert found is not None
    assert [(one.state, one.doing) for one in found.members] == [
        ("here", "waiting for its next task"),
        ("absent", "absent: its connection ended"),
        ("working", "working: primal of round 3"),
        ("unknown", ""),
    ]
    assert [fact.value for fact in found.members[0].facts] == [20, 4, ROUNDS]


def test_the_picture_of_the_table_covers_it_once(document: Document) -> None:
    picture = item(document, "holdings")
    assert sum(cell["samples"] * cell["features"] for cell in picture["cells"]) == 40 * 8
    assert [cell["holders"] for cell in picture["cells"]] == [[f"hospital-{number}"] for number in (1, 2, 3, 4)]


def test_the_ledger_is_that_of_all_rounds(document: Document) -> None:
    assert item(document, "seen-in-words")["paragraphs"] == [
        "No value of a single party or of a single sample was readable to the server."
    ]
    rows = {row[0]: row[1:3] for row in item(document, "sight-server")["rows"]}
    assert rows["encrypted, and the server has no key"] == [4 * 300 * (ROUNDS + 1), 4 * 30 * (ROUNDS + 1)]


def test_a_long_run_is_thinned_but_loses_no_absence(tmp_path: Path) -> None:
    made_up_run(tmp_path, rounds=3000, grid=(2, 1))
    found = run_document(StateView(tmp_path).view("long", patience_s=math.inf))
    assert len(item(found, "gap")["at"]) < 600
    chart = item(found, "participation")
    assert len(chart["at"]) == 240
    cells = [value for row in chart["series"] for value in row["values"]]
    assert cells.count(Presence.LEFT_OUT) == 60
    assert len(json.dumps(plain(found))) < 200_000


def test_rounds_are_read_once_and_as_they_come(tmp_path: Path) -> None:
    made_up_run(tmp_path, rounds=60, grid=(2, 1))
    state = StateView(tmp_path)
    history = state.view("long", patience_s=0.0).history
    assert (history.next_round, history.detailed) == (61, 0)
    early = run_document(state.view("long", patience_s=0.0))
    assert "bytes" not in [one.key for section in early.sections for one in section.items]
    assert item(early, "still-reading")["paragraphs"] == [
        "The details of 0 of 61 rounds have been read so far; the rest follows."
    ]
    version = state.version()
    while state.read_on() < 10:
        pass
    assert state.view("long").history is history
    assert len(history.ciphertext_up) == 60
    whole = run_document(state.view("long"))
    assert "still-reading" not in [one.key for section in whole.sections for one in section.items]
    assert state.version() == version


def test_the_forms_of_values_are_those_of_this_run_beside_other_levels(document: Document) -> None:
    table = item(document, "protection")
    assert [column["name"] for column in table["columns"]] == ["what", "sealed, this run", "paper", "plain"]
    rows = {row[0]: row[1:] for row in table["rows"]}
    assert rows["rows, labels, sample ids"] == 3 * ["never"]
    assert rows["inner products, row norms"] == ["ciphertext", "ciphertext", "in clear"]
    share = "each party's contribution to the model, and the model"
    assert rows[share] == ["ciphertext", "in clear, each round", "in clear, each round"]


def test_an_unknown_run_is_an_error_of_its_own(state: StateView) -> None:
    with pytest.raises(UnknownRun):
        state.view("nobody")


def test_a_diverged_run_proves_nothing(state: StateView) -> None:
    history = RunHistory()
    history.add_figures(
        RoundFigures(RoundId(round_id), {"primal": "inf", "dual": 0.1, "gap": "inf"}, {"total": 1.0}, 1, 1, ())
        for round_id in (0, 1)
    )
    view = state.view("long")
    document = run_document(type(view)(view.record, history, view.layout, (), served=False))
    assert item(document, "certificate")["paragraphs"] == [
        "The values of this run left all bounds: it diverged, and nothing is proven of its model."
    ]
    assert facts(document, "headline")["duality gap"] == "inf"


def test_a_party_that_was_not_asked_is_not_left_out() -> None:
    history = RunHistory()
    absent = (AbsenceRecord(ClientId("south"), "primal", "gone"),)
    for round_id, metrics, absences in (
        (0, {}, ()),
        (1, {"participants": ["north"]}, ()),
        (2, {"participants": ["north"]}, absent),
    ):
        history.add_figures([RoundFigures(RoundId(round_id), metrics, {}, 0, 0, absences)])
    assert history.presence().tolist() == [
        [Presence.TOOK_PART, Presence.NOT_ASKED],
        [Presence.TOOK_PART, Presence.LEFT_OUT],
    ]
    assert history.reasons == [(2, "south", "gone")]


def test_scores_that_the_parties_measured_are_on_the_model_card(state: StateView) -> None:
    scores = ScoreFigures(40, auc=0.75, auc_error=0.001, log_loss=0.5, calibration=(CalibrationRow(20, 0.1, 0.15),))
    history = RunHistory()
    for round_id, metrics in ((0, {}), (1, {"primal": 0.5, "scores": jsonrecord.to_mapping(scores)})):
        history.add_figures([RoundFigures(RoundId(round_id), metrics, {}, 0, 0, ())])
    view = state.view("long")
    document = run_document(type(view)(view.record, history, view.layout, (), served=False))
    assert facts(document, "scores") == {"AUC": 0.75, "log loss": 0.5}
    assert item(document, "calibration")["rows"] == [[20, 0.1, 0.15]]


def test_runs_are_compared_by_the_best_bound_of_any(tmp_path: Path) -> None:
    for place, algorithm in enumerate(("hyfdca", "fedavg")):
        made_up_run(tmp_path / algorithm, rounds=20 + place, grid=(2, 1), name=algorithm, algorithm=algorithm)
    views = [StateView(tmp_path / algorithm).view(algorithm) for algorithm in ("hyfdca", "fedavg")]
    document = comparison_document(views)
    relative = item(document, "relative")
    assert [one["name"] for one in relative["series"]] == ["hyfdca", "fedavg"]
    assert relative["series"][1]["at"] == list(range(1, 22))
    assert relative["series"][1]["values"][3] == pytest.approx((1 / 4) / 0.2)
    assert item(document, "relative-time")["series"][0]["at"][-1] == pytest.approx(20 * STEP_S)
    assert [row[0] for row in item(document, "summary")["rows"]] == ["hyfdca", "fedavg"]
    assert item(document, "levels")["at"] == ["hyfdca", "fedavg"]
    assert document.warning == ""


def test_a_comparison_with_a_run_in_clear_is_stamped(tmp_path: Path) -> None:
    levels: dict[str, dict[str, Any]] = {"sealed": {}, "clear": {"privacy": "plain", "benchmark": True}}
    for name, level in levels.items():
        made_up_run(tmp_path / name, rounds=2, grid=(2, 1), name=name, **level)
    views = [StateView(tmp_path / name).view(name) for name in levels]
    assert comparison_document(views).warning == "PLAINTEXT: nothing was encrypted in clear."
    assert run_document(views[1]).warning.startswith("PLAINTEXT")


def test_the_layout_of_the_made_up_run_is_a_grid() -> None:
    layout = grid_layout((2, 3))
    assert (layout.sample_count, len(layout.features), len(layout.clients)) == (40, 12, 6)
