"""`fenchel report`: one file, the numbers behind it, and figures for a paper, all from the same description."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from starlette.testclient import TestClient

from fenchel_common.identity import Address
from fenchel_deploy.cli.exits import ExitCode
from fenchel_deploy.dashboard.access import Access
from fenchel_deploy.dashboard.app import server_page
from fenchel_deploy.dashboard.plates import write_plates
from fenchel_deploy.dashboard.rundocument import run_document
from fenchel_deploy.dashboard.state import StateView
from support.commands import run_fenchel
from support.stores import made_up_run

MOST_BYTES = 6_000_000
HOSTILE = '</script><img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("state")
    made_up_run(found, rounds=30, grid=(2, 2), name=HOSTILE)
    return found


def test_the_report_is_one_file_of_bounded_size_that_asks_for_nothing(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert run_fenchel("report", "run-1", "--state", directory, "--out", out).exit_code == ExitCode.DONE
    text = out.read_text()
    assert len(text.encode()) < MOST_BYTES
    head = text[: text.index("<style>")]
    assert "default-src 'none'" in head
    assert "unsafe-eval" not in head
    assert "'unsafe-inline'" not in re.search(r"script-src ([^;]*);", head)[1]  # type: ignore[index]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text.replace(json.dumps(HOSTILE), ""))


def test_markup_in_a_name_stays_text(directory: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    run_fenchel("report", "run-1", "--state", directory, "--out", out)
    text = out.read_text()
    assert HOSTILE not in text
    data = text.split('<script type="application/json" id="documents">')[1].split("</script>")[0]
    assert json.loads(data)["documents"][0]["title"] == HOSTILE


def test_the_page_and_the_command_give_the_same_numbers(directory: Path) -> None:
    printed = run_fenchel("report", "run-1", "--state", directory, "--format", "json").stdout
    access = Access.at(Address("127.0.0.1", 1), token=None, tls=False)
    with TestClient(server_page(StateView(directory), access), base_url="http://localhost") as page:
        assert page.get("/api/run/run-1").json() == json.loads(printed)


def test_several_runs_begin_with_their_comparison(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made_up_run(tmp_path, rounds=5, grid=(2, 1), run=name, name=name)
    ended = run_fenchel("report", "one", "two", "--state", tmp_path, "--format", "json")
    kinds = [(one["kind"], one["title"]) for one in json.loads(ended.stdout)["documents"]]
    assert kinds == [("comparison", "2 runs side by side"), ("run", "one"), ("run", "two")]


@pytest.fixture(scope="module")
def figures(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    assert run_fenchel("report", "run-1", "--state", directory, "--figures", folder).exit_code == ExitCode.DONE
    return folder


def test_every_chart_becomes_a_figure_with_its_axes_named(figures: Path) -> None:
    charts = {"gap", "objective", "fit", "participation", "time", "bytes", "latency", "sights"}
    assert {path.name for path in figures.iterdir()} == {
        f"run-1-{chart}.{suffix}" for chart in charts for suffix in ("svg", "png")
    }
    texts = [
        "".join(one.itertext()).strip()
        for one in ElementTree.parse(figures / "run-1-gap.svg").iter("{http://www.w3.org/2000/svg}text")  # noqa: S314
    ]
    assert {"round", "duality gap P − D, no unit", "goal"} <= set(texts)


def test_figures_are_the_same_bytes_each_time(directory: Path, figures: Path, tmp_path: Path) -> None:
    document = run_document(StateView(directory).view("run-1", patience_s=math.inf))
    first = replace(document.sections[0], items=document.sections[0].items[2:3])
    written = write_plates([replace(document, sections=(first,))], tmp_path)
    assert [path.name for path in written] == ["run-1-gap.svg", "run-1-gap.png"]
    for path in written:
        assert path.read_bytes() == (figures / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run-1",), ExitCode.REFUSED, "say what to write"),
        (("nobody", "--format", "json"), ExitCode.UNKNOWN_RUN, "there is no run nobody"),
        (("run-1", "--out", "/nowhere/report.html"), ExitCode.REFUSED, "cannot be written"),
    ],
)
def test_a_report_that_cannot_be_made_says_why(directory: Path, words: tuple[str, ...], code: int, said: str) -> None:
    ended = run_fenchel("report", *words, "--state", directory)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert said in ended.stderr


def test_a_folder_without_state_is_refused(tmp_path: Path) -> None:
    for command in ("report run-1 --format json", "dashboard"):
        assert run_fenchel(*command.split(), "--state", tmp_path).exit_code == ExitCode.STATE
