"""The page in a browser, as a reader sees it: a real run from its start to its end, and the report from disk."""

import json
import re
import threading
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from fenchel_common.ids import RunId
from fenchel_common.runconfig import RunConfig
from fenchel_deploy.dashboard.beside import page_beside
from fenchel_deploy.local import LocalFederation
from fenchel_deploy.wan import Wan
from fenchel_server.store import RunStatus, SqliteStore
from support.chromium import PATIENCE_MS, Open
from support.commands import run_fenchel
from support.partyfolders import made_up_party
from support.stores import made_up_run
from support.tables import named_shards, small_dataset

KINDS = ("run-4", "run-64", "comparison", "party")
SERIOUS = ("serious", "critical")
HOSTILE = '<img src=x onerror="window.hacked=1"><b>name</b>'


OVERLAPPING = r"""() => [...document.querySelectorAll("figure")]
  .flatMap((figure) => ["xtick", "ytick"].flatMap((axis) => {
    const boxes = [...figure.querySelectorAll(`.${axis} text`)]
        .filter((one) => !/rotate\((?!0)/.test(one.getAttribute("transform")))
        .map((one) => one.getBoundingClientRect());
    const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    return boxes.some((one, place) => boxes.slice(place + 1).some((other) => !apart(one, other)))
        ? [`${axis} of ${figure.dataset.chart}`] : [];
})).concat([...document.querySelectorAll(".xtitle, .ytitle")].filter((one) => {
    const box = one.getBoundingClientRect(), whole = one.closest(".drawing").getBoundingClientRect();
    return box.left < whole.left || box.right > whole.right || box.top < whole.top || box.bottom > whole.bottom;
}).map((one) => one.textContent)).concat([...document.querySelectorAll("dl.facts > div, .member")]
    .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent))"""
"""The axes whose marks lie on each other, names of axes that are cut off, and facts that are wider than their place.

Plotly keeps slanted marks apart, though the boxes around them overlap.
"""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A state folder with runs of made-up rounds, and the address of its page."""
    directory = tmp_path_factory.mktemp("made-up")
    made_up_run(directory, rounds=120, grid=(8, 8), run="run-64", name="sixty-four")
    made_up_run(directory, rounds=120, grid=(2, 2), run="run-4", name=HOSTILE)
    with page_beside(directory) as address:
        yield directory, address


@pytest.fixture(scope="module")
def pages(made_up: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The address of each kind of page."""
    folder = tmp_path_factory.mktemp("party") / "clinic"
    made_up_party(folder)
    with page_beside(folder, of_party=True) as party:
        address = made_up[1]
        runs = {run: f"{address}run/{run}" for run in ("run-4", "run-64")}
        yield {**runs, "comparison": f"{address}compare?run=run-4&run=run-64", "party": party}


def drawn(page: Page) -> None:
    page.wait_for_selector("main[data-drawn]")


def at(documents: list[Any], path: str) -> Any:
    """The value at a path such as `0.sections.1.items.2.rows.0.3`."""
    place, *steps = path.split(".")
    found = documents[int(place)]
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def digits_agree(text: str, value: float, form: str) -> bool:
    """Whether the text shows the value, to the digits that it has."""
    if form == "time":
        return text.endswith(" UTC")
    superscripts = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    number = re.sub(r" × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: "e" + found[1].translate(superscripts), text)
    shown = float(re.match(r"[-\d.,e]+", number)[0].replace(",", ""))  # type: ignore[index]
    unit = re.sub(r"^[-\d.,e]+\s*", "", number)
    scale = {"ms": 1e-3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "%": 0.01}.get(unit, 1.0)
    return abs(shown * scale - value) <= 0.006 * max(abs(value), 1e-12) or abs(shown * scale - value) <= 0.5 * scale


def test_every_number_on_the_page_is_the_one_that_the_report_prints(made_up: tuple[Path, str], new_page: Open) -> None:
    directory, address = made_up
    printed = json.loads(run_fenchel("report", "run-64", "--state", directory, "--format", "json").stdout)
    page = new_page()
    page.goto(f"{address}run/run-64")
    drawn(page)
    # What a busy machine has not read at the first look comes with the next ones.
    expect(page.get_by_text("have been read so far")).to_have_count(0)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    expect(page.locator("details:not(:has(:nth-child(2)))")).to_have_count(0)
    shown = page.evaluate(
        "[...document.querySelectorAll('data[data-path]')].map((one) => "
        "[one.dataset.path, one.getAttribute('value'), one.textContent, one.dataset.form])"
    )
    assert len(shown) > 2000
    for path, value, text, form in shown:
        expected = at(printed["documents"], path)
        assert float(value) == expected, path
        assert digits_agree(text, expected, form), (path, text, expected)
    plotted = page.evaluate("document.querySelector('[data-chart=gap] .drawing').data[0].y")
    assert plotted == at(printed["documents"], "0.sections.0.items.2.series.0.values")


def test_names_with_markup_are_shown_as_text(made_up: tuple[Path, str], new_page: Open) -> None:
    page = new_page()
    page.goto(made_up[1])
    expect(page.locator("h1")).to_have_text(HOSTILE)
    drawn(page)
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_serious_stands_in_the_way_of_anybody(pages: dict[str, str], new_page: Open, kind: str) -> None:
    page = new_page(color_scheme="light")
    page.goto(pages[kind])
    drawn(page)
    page.locator("summary").first.click()
    for _ in ("light", "dark"):
        # A chart is one picture with a name, and a table behind it; its drawing is not read out.
        found = Axe().run(page, context={"exclude": [[".plot-container"]]}).response["violations"]
        serious = [one for one in found if one["impact"] in SERIOUS]
        assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in serious] == []
        page.locator("#theme").click()


@pytest.mark.parametrize("kind", KINDS)
def test_at_every_width_nothing_overlaps_or_is_cut_off_and_every_axis_has_a_name(
    pages: dict[str, str], new_page: Open, kind: str
) -> None:
    page = new_page()
    for width in (1400, 800, 380):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(pages[kind])
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(OVERLAPPING) == []
    for chart in page.locator("figure").all():
        titles = [text for text in chart.locator(".xtitle, .ytitle").all_text_contents() if text]
        assert len(titles) == 2, chart.get_attribute("data-chart")


def test_the_run_under_way_is_shown_first_and_the_list_says_what_becomes_of_each(
    tmp_path: Path, new_page: Open
) -> None:
    made_up_run(tmp_path, rounds=3, grid=(2, 1), run="run-1", name="first")
    with SqliteStore.serve(tmp_path) as store, page_beside(tmp_path) as address:
        config = RunConfig.from_mapping({"name": "second"}).to_json()
        store.create_run(RunId("run-2"), name="second", config=config)
        page = new_page()
        page.goto(address)
        expect(page.locator("h1")).to_have_text("first")
        listed = page.locator("#runs option")
        expect(listed).to_have_text(
            ["second, hyfdca (corrective), sealed, queued", "first, hyfdca (corrective), sealed, running"]
        )
        store.close_run(RunId("run-1"), RunStatus.STOPPED, reason="stopped by the operator")
        expect(listed.nth(1)).to_have_text("first, hyfdca (corrective), sealed, stopped")
        expect(page.locator(".state")).to_have_text("stopped: stopped by the operator")


def test_the_reader_chooses_light_or_dark_by_keyboard_and_the_choice_stays(
    made_up: tuple[Path, str], new_page: Open
) -> None:
    page = new_page(color_scheme="light")
    page.goto(f"{made_up[1]}run/run-4")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    dark = page.evaluate(ground)
    page.reload()
    drawn(page)
    assert page.evaluate(ground) == dark != light


def test_the_report_opens_from_disk_without_a_network(
    made_up: tuple[Path, str], new_page: Open, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    run_fenchel("report", "run-4", "run-64", "--state", made_up[0], "--out", out)
    page = new_page(offline=True)
    page.goto(out.as_uri())
    drawn(page)
    expect(page.locator("h1")).to_have_count(3)
    assert page.locator("figure .main-svg").count() > 15
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_real_run_is_watched_from_its_start_to_its_end(new_page: Open, tmp_path: Path) -> None:
    """The gap falls, a party that is killed turns absent with the reason, a reload loses nothing, the run ends.

    The network is as slow as a long one, so that there is something to watch.
    """
    config = RunConfig.from_mapping(
        {
            "name": "watched",
            "cipher": "masks",
            "key": {"bits": 2048},
            "settings": {"loss": "hinge", "lambda": 1e-3},
            "round": {"deadline_s": 20.0, "quorum": 1.0, "wait_s": 120.0},
            "stop": {"gap": 1e-9, "rounds": 20},
        }
    )
    shards = named_shards(small_dataset(rows=200, columns=8), grid=(2, 2))
    victim = max(shards)
    with (
        LocalFederation(tmp_path, shards, config, wan=Wan("us-singapore")) as federation,
        page_beside(federation.state, kit=tmp_path / "kits/server") as address,
    ):
        # The server waits for whoever reads its events.
        threading.Thread(target=lambda: deque(federation.events(), 0), daemon=True).start()
        page = new_page()
        page.goto(address)
        expect(page.locator("h1")).to_have_text("watched")
        gap = page.locator("dl.leading > div:first-child", has_text="duality gap").locator("data")
        gaps = [gap.get_attribute("value")]
        while len(gaps) < 3:
            expect(gap).not_to_have_attribute("value", str(gaps[-1]))
            gaps.append(gap.get_attribute("value"))
        assert all(float(str(later)) < float(str(earlier)) for earlier, later in pairwise(gaps))

        federation.clients[victim].kill()
        federation.clients[victim].wait()
        tile = page.locator(f"[data-party={victim}]")
        expect(tile).to_have_attribute("data-state", "absent")
        expect(tile).to_contain_text("its connection ended, or gives no sign of life")
        before = page.evaluate("document.querySelector('[data-chart=gap] .drawing').data[0].y")
        page.reload()
        drawn(page)
        assert page.evaluate("document.querySelector('[data-chart=gap] .drawing').data[0].y")[: len(before)] == before
        expect(page.locator(f"[data-party={victim}]")).to_have_attribute("data-state", "absent")
        expect(page.locator("text=certificate is valid until")).to_be_visible()

        federation.start_client(victim)
        expect(page.locator(".state b")).to_have_text(re.compile("completed|exhausted"), timeout=2 * PATIENCE_MS)
        assert not any(federation.wait()[name] for name in shards)
