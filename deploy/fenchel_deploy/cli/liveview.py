"""The live view of a run: one for every command that follows one.

On a terminal it is a few lines that are redrawn in place, each cut to the width of the terminal. Elsewhere each event
is a line of text with its time, in the form of the log, or a line of JSON.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from fenchel_deploy.cli.console import PlainConsole
from fenchel_deploy.cli.eventlines import line_of
from fenchel_deploy.cli.logs import log_line
from fenchel_deploy.cli.output import Format, printable
from fenchel_deploy.cli.story import TOTAL, PartyNow, RunStory
from fenchel_deploy.keys import key_in_words
from fenchel_deploy.times import clock_time

REDRAW_EVERY_S: Final = 0.25
MAX_PARTIES: Final = 12
"""The most parties that are listed; those that are missing or at work come first."""
MAX_WARNINGS: Final = 3
LETTERS: Final[Mapping[str, tuple[str, str]]] = {
    "encrypt": ("E", "magenta"),
    "decrypt": ("D", "blue"),
    "serialise": ("S", "cyan"),
    "parties": ("P", "green"),
    "wire": ("W", "yellow"),
    "wait": ("A", "red"),
    "compute": ("C", "bright_green"),
    "clients": ("L", "bright_red"),
    "store": ("T", "bright_blue"),
    "other": ("O", "white"),
}
"""How each kind of time is shown in the bar: by a letter, and by a colour where there are colours."""

Tell = Callable[[Mapping[str, Any]], None]


@contextmanager
def following(story: RunStory, *, output: Format, stderr: bool) -> Iterator[Tell]:
    """Shows what is told of a run while the context lasts: on stderr, or on stdout if it is the command's data.

    On stdout, JSON is always one line an event. On stderr it is that only where there is no terminal to draw on, and
    the view is wiped off at the end, because the command's own data follow on stdout.
    """
    console = PlainConsole(stderr=stderr)
    in_json = output is Format.JSON
    if can_draw(console) and (stderr or not in_json):
        with drawn(story, console, transient=in_json) as draw:
            yield draw
        return
    stream = sys.stderr if stderr else sys.stdout

    def write(event: Mapping[str, Any]) -> None:
        if in_json:
            stream.write(json.dumps(event) + "\n")
        elif (line := line_of(event)) is not None:
            stream.write(log_line(line.text, line.level) + "\n")
        stream.flush()

    yield write


def can_draw(console: PlainConsole) -> bool:
    """Whether the console is a terminal on which lines can be redrawn."""
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def drawn(story: RunStory, console: PlainConsole, *, transient: bool = False) -> Iterator[Tell]:
    """Draws the view while the context lasts; lines that are written to stdout or stderr meanwhile go above it.

    The view has locks of its own. Whoever draws takes the console first, as whoever prints a line does: rich's own
    thread for drawing would not.
    """
    live = Live(LiveView(story), console=console, auto_refresh=False, transient=transient)
    ended = threading.Event()

    def draw(event: Mapping[str, Any]) -> None:
        story.tell(event)
        if event["event"] in ("round", "ended"):
            redraw()

    def redraw() -> None:
        with console:
            live.refresh()

    def redraw_often() -> None:
        while not ended.wait(REDRAW_EVERY_S):
            redraw()

    drawing = threading.Thread(target=redraw_often, name="view", daemon=True)
    with console:
        live.start(refresh=True)
    drawing.start()
    try:
        yield draw
    finally:
        ended.set()
        drawing.join()
        with console:
            live.stop()


class LiveView:
    """The lines of the view, as they are at the moment when they are drawn."""

    def __init__(self, story: RunStory) -> None:
        self._story = story

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in lines_of(self._story, width=options.max_width):
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line


def lines_of(story: RunStory, *, width: int) -> Iterator[Text]:
    """The view of a run, line by line; a line may be wider than `width`, and is then cut."""
    yield _text(f"{story.title}: {story.state}" if story.title else story.state, style="bold")
    if story.privacy is not None:
        key = key_in_words(story.key_bits, cipher=story.cipher, fingerprint=story.key_fingerprint)
        yield _text(f"{story.run}, {story.privacy}; encryption: {key}")
    if story.page is not None:
        yield _text(story.page)
    if story.round or story.measured:
        yield _progress(story)
    if story.seconds.get(TOTAL):
        yield from _where_the_time_goes(story.seconds, width=width)
    yield from _parties(story.parties)
    for warning in story.warnings[-MAX_WARNINGS:]:
        yield _text(f"WARNING: {warning}", style="bold")


def _progress(story: RunStory) -> Text:
    limit = "" if story.rounds_limit is None else f" of at most {story.rounds_limit}"
    parts = [f"round {story.round}{limit}", story.measured]
    if story.gap_target is not None:
        parts.append(f"target {story.gap_target:.3g}")
    if (left_s := story.left_s) is not None:
        parts.append(f"about {_length(left_s)} left" if left_s else "the gap is reached")
    return _text(", ".join(filter(None, parts)))


def _where_the_time_goes(seconds: Mapping[str, float], *, width: int) -> Iterator[Text]:
    """A bar as wide as the view, and what each of its letters stands for."""
    shares = {kind: seconds.get(kind, 0.0) / seconds[TOTAL] for kind in LETTERS}
    cells = max(width - 2, 1)
    bar, drawn, upto = Text("["), 0, 0.0
    for kind, (letter, colour) in LETTERS.items():
        upto += shares[kind]
        end = min(round(upto * cells), cells)
        bar.append(letter * (end - drawn), style=colour)
        drawn = end
    bar.append(" " * (cells - drawn) + "]")
    yield bar
    largest = sorted((kind for kind in LETTERS if shares[kind] >= 0.005), key=lambda kind: -shares[kind])
    legend = Text()
    for kind in largest:
        entry = f"{LETTERS[kind][0]} {kind} {shares[kind]:.0%}"
        if len(legend) + len(entry) + 2 > width:
            break
        legend.append(("  " if legend else "") + entry, style=LETTERS[kind][1])
    yield legend


def _parties(parties: tuple[PartyNow, ...]) -> Iterator[Text]:
    ordered = sorted(parties, key=lambda one: (one.connected, one.phase is None))
    names = max((len(one.name) for one in ordered[:MAX_PARTIES]), default=0)
    for one in ordered[:MAX_PARTIES]:
        if not one.connected:
            state, style = f"absent since {clock_time(one.since)}: {one.reason}", "red"
        elif one.phase is not None:
            state, style = f"working: {one.phase}", "green"
        else:
            state, style = "waiting", ""
        yield _text(f"{one.name:{names}}  {state}", style=style)
    if len(ordered) > MAX_PARTIES:
        yield _text(f"and {len(ordered) - MAX_PARTIES} more parties")


def _length(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _text(words: str, *, style: str = "") -> Text:
    return Text(printable(words), style=style)
