"""The view of a run, line by line: what it is made of, and how wide it is."""

import io
import threading
from typing import Any

import pyte
import pytest
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.eventlines import line_of
from fenchel_deploy.cli.liveview import LETTERS, MAX_PARTIES, drawn, lines_of
from fenchel_deploy.cli.story import RunStory
from fenchel_server.rounds.ledger import Kind

BEGINS: dict[str, Any] = {
    "event": "begins",
    "run": "run-1",
    "name": "trial",
    "round": 0,
    "algorithm": "hyfdca",
    "privacy": "sealed",
    "cipher": "paillier",
    "key_bits": None,
    "key_fingerprint": None,
    "gap_target": 1e-3,
    "rounds_limit": 100,
}
SECONDS = {"total": 10.0, "encrypt": 2.5, "decrypt": 5.0, "wire": 2.0, "other": 0.5}


def round_event(number: int, gap: float | None) -> dict[str, Any]:
    figures = {"primal": None if gap is None else 0.5, "dual": None, "gap": gap, "accuracy": 0.75}
    costs = {"seconds": SECONDS}
    rest = {"closing": False, "figures": {}, "seconds": 10.0, "costs": costs, "absences": {}}
    return {"event": "round", "run": "run-1", "round": number, **figures, **rest}


def party(name: str, *, connected: bool = True, phase: str | None = None) -> dict[str, Any]:
    owes = None if phase is None else {"run": "run-1", "round": 3, "phase": phase}
    return {"party": name, "connected": connected, "since": 0.0, "reason": "it left", "owes": owes}


@pytest.fixture
def story() -> RunStory:
    told = RunStory()
    for event in (BEGINS, round_event(1, 1.0), round_event(2, 0.1)):
        told.tell(event)
    return told


def view(story: RunStory, width: int = 80) -> list[str]:
    return [line.plain for line in lines_of(story, width=width)]


def test_the_bar_has_a_letter_for_every_kind_of_time() -> None:
    assert set(LETTERS) == set(Kind)
    assert len({letter for letter, _ in LETTERS.values()}) == len(Kind)


def test_the_gap_is_shown_against_its_target_with_the_time_that_is_left(story: RunStory) -> None:
    # The gap fell to a tenth in ten seconds, and has to fall to a hundredth of that.
    assert story.left_s == pytest.approx(20.0)
    assert "round 2 of at most 100, gap 1.000e-01, accuracy 0.7500, target 0.001, about 20 s left" in view(story)


def test_nothing_is_foretold_of_a_gap_that_does_not_shrink_or_was_measured_once() -> None:
    story = RunStory()
    for event in (BEGINS, round_event(1, 0.1)):
        story.tell(event)
    assert story.left_s is None
    story.tell(round_event(2, 0.2))
    assert story.left_s is None


def test_a_closing_round_does_not_count_as_it_does_not_for_the_limit(story: RunStory) -> None:
    story.tell(round_event(3, 0.05) | {"closing": True})
    assert any(line.startswith("round 2 of at most 100, gap 5.000e-02") for line in view(story))


def test_the_key_is_told_as_soon_as_it_is_known(story: RunStory) -> None:
    assert "run-1, hyfdca, sealed; encryption: paillier, no key yet: the set-up is not over" in view(story)
    story.tell({"event": "ready", "run": "run-1", "cipher": "paillier", "key_bits": 2048, "key_fingerprint": "ab"})
    assert "run-1, hyfdca, sealed; encryption: paillier, 2048 bits, ab" in view(story)


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_bar_is_as_wide_as_the_view_and_its_legend_no_wider(story: RunStory, width: int) -> None:
    bar, legend = view(story, width)[3:5]
    assert len(bar) == width
    assert bar.count("D") == pytest.approx(width / 2, abs=2)
    assert len(legend) <= width
    assert legend.startswith("D decrypt 50%")


def test_each_party_is_absent_working_or_waiting(story: RunStory) -> None:
    entries = [party("idle"), party("busy", phase="primal"), party("gone", connected=False)]
    story.tell({"event": "parties", "parties": entries})
    assert view(story)[-3:] == [
        "gone  absent since 1970-01-01 00:00:00 UTC: it left",
        "busy  working: primal",
        "idle  waiting",
    ]
    assert view(story)[0] == "trial: round 3: primal"


def test_of_many_parties_those_that_are_missing_come_first(story: RunStory) -> None:
    entries = [party(f"p{number}", connected=number != 30) for number in range(40)]
    story.tell({"event": "parties", "parties": entries})
    lines = view(story)
    assert lines[-MAX_PARTIES - 1].startswith("p30")
    assert lines[-1] == f"and {40 - MAX_PARTIES} more parties"


def test_events_that_are_worth_a_line_have_one() -> None:
    line = line_of(BEGINS)
    assert line is not None
    assert line.text == (
        "run run-1 (trial) begins: hyfdca, sealed; encryption: paillier, no key yet: the set-up is not over; "
        "at most 100 rounds, to a gap of 0.001"
    )
    assert line_of({"event": "phase", "run": "run-1", "round": 1, "phase": "primal"}) is None
    absent = line_of(round_event(3, None) | {"absences": {"south": "late"}})
    assert absent is not None
    assert absent.text == "run run-1: round 3, 10.00 s, without south (late)"


class Slow:
    """A line that is being printed until somebody else has drawn, or has had the time to."""

    def __init__(self) -> None:
        self.begun, self.drawn = threading.Event(), threading.Event()

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        self.begun.set()
        self.drawn.wait(0.5)
        yield Text("a line of the log")


def test_a_line_that_is_written_while_another_thread_draws_a_higher_view_leaves_nothing_of_it_behind() -> None:
    screen, line = io.StringIO(), Slow()
    console = PlainConsole(file=screen, force_terminal=True, width=80, height=40)
    story = RunStory("north", "waiting")
    with drawn(story, console) as tell:
        writing = threading.Thread(target=console.print, args=(line,))
        writing.start()
        line.begun.wait()
        tell(BEGINS)
        tell(round_event(1, 1.0))
        line.drawn.set()
        writing.join()
    assert shown(screen.getvalue()) == ["a line of the log", *(line.rstrip() for line in view(story))]


def shown(written: str) -> list[str]:
    """What is on a terminal of 80 columns to which this was written."""
    terminal = pyte.Screen(80, 40)
    pyte.Stream(terminal).feed(written.replace("\n", "\r\n"))
    return [line.rstrip() for line in terminal.display if line.strip()]
