"""What a party does at the moment, in a file of its state folder, for whoever looks at the party from beside it.

    now.json    the run, round and phase at work, whom the federation waits for, and the gaps that the party has seen

The file is private, like all files of the folder. It is written once a second at most, and has a sign of life.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fenchel_client.privatefiles import write_private

NOW_FILE: Final = "now.json"
WRITE_EVERY_S: Final = 1.0
SIGN_OF_LIFE_S: Final = 20.0
LOST_AFTER_S: Final = 60.0
"""Without a sign of life for so long, the process is taken to have ended."""
MOST_GAPS: Final = 2000

Tell = Callable[[Mapping[str, Any]], None]


class Standing:
    """Gathers the events of a party's work; `tell` may be called from any thread."""

    def __init__(self, folder: Path, party: str) -> None:
        self._path = folder / NOW_FILE
        self._lock = threading.Lock()
        kept = read_standing(folder) or {}
        self._gaps: list[list[float]] = list(kept.get("gaps", []))
        self._now: dict[str, Any] = {"party": party, "run": kept.get("run"), "begins": kept.get("begins")}
        self._now |= {"phase": None, "round": None, "waits": {}, "seconds": {}, "working": False}
        self._changed = True
        self._written_s = -SIGN_OF_LIFE_S

    def tell(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            match event["event"]:
                case "phase":
                    self._take_up(event["run"])
                    self._now |= {"round": event["round"], "phase": event["phase"], "working": True, "waits": {}}
                case "begins":
                    self._take_up(event["run"])
                    self._now["begins"] = dict(event)
                case "worked":
                    self._now |= {"working": False, "seconds": dict(event["seconds"])}
                    self._note_gap(event["round"], event["gap"])
                case "waiting":
                    self._now["waits"] = dict(event["since"])
            self._changed = True

    def _take_up(self, run: str) -> None:
        if self._now["run"] != run:
            self._now |= {"run": run, "begins": None}
            self._gaps = []

    def _note_gap(self, round_id: int, gap: float | None) -> None:
        if gap is not None and (not self._gaps or self._gaps[-1][1] != gap):
            self._gaps = [*self._gaps, [round_id, gap]][-MOST_GAPS:]

    def write(self, *, ended: bool = False) -> None:
        """Writes the file if there is something new, or a sign of life is due."""
        with self._lock:
            now_s = time.monotonic()
            if not (self._changed or ended or now_s - self._written_s >= SIGN_OF_LIFE_S):
                return
            content = {**self._now, "gaps": self._gaps, "time": time.time(), "ended": ended}
            self._changed, self._written_s = False, now_s
        # A process that cannot write the file goes on: nothing but a view depends on it.
        with suppress(OSError):
            write_private(self._path, json.dumps(content).encode(), durable=False)


@contextmanager
def standing_kept(folder: Path, party: str, tell: Tell) -> Iterator[Tell]:
    """While the context lasts, events that go to the yielded function go to `tell`, and are kept in the file."""
    standing, ended = Standing(folder, party), threading.Event()

    def tell_both(event: Mapping[str, Any]) -> None:
        standing.tell(event)
        tell(event)

    def follow() -> None:
        while not ended.wait(WRITE_EVERY_S):
            standing.write()

    follower = threading.Thread(target=follow, name="standing", daemon=True)
    follower.start()
    try:
        yield tell_both
    finally:
        ended.set()
        follower.join()
        standing.write(ended=True)


def read_standing(folder: Path) -> dict[str, Any] | None:
    """What is in the file of a state folder; None without one that can be read."""
    try:
        content = json.loads((folder / NOW_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def is_at_work(standing: Mapping[str, Any] | None) -> bool:
    """Whether the client that wrote this still runs, as far as its last sign of life tells."""
    if standing is None or standing.get("ended"):
        return False
    return time.time() - float(standing.get("time", 0.0)) < LOST_AFTER_S
