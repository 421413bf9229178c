"""Watches a state folder for all pages that are open, with one look a second, and tells them when to ask again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

LOOK_S: Final = 1.0
"""How often the folder is looked at, and so the most often that pages ask again."""
SIGN_OF_LIFE_S: Final = 15.0
"""How often an idle stream says something, so that a broken connection is noticed."""
MOST_PAGES: Final = 100


class Follower:
    """Looks while at least one page is open. `version` gives a value that changes whenever there is something new."""

    def __init__(self, version: Callable[[], Awaitable[object]]) -> None:
        self._version = version
        self._pages: dict[asyncio.Event, object] = {}
        """The pages, and of which version each was told last: of none at first, as it may have asked before it came."""
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def end(self) -> None:
        """Ends all streams, because the process ends."""
        self._ended = True
        for page in self._pages:
            page.set()

    @property
    def full(self) -> bool:
        """Whether no further page can be followed for."""
        return len(self._pages) >= MOST_PAGES

    async def words(self) -> AsyncIterator[bytes]:
        """The stream of one page, as server-sent events."""
        changed = asyncio.Event()
        self._pages[changed] = None
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            yield b"retry: 1000\n\n"
            while not self._ended:
                try:
                    await asyncio.wait_for(changed.wait(), SIGN_OF_LIFE_S)
                except TimeoutError:
                    yield b": alive\n\n"
                    continue
                changed.clear()
                yield b"event: changed\ndata: {}\n\n"
        finally:
            self._pages.pop(changed, None)
            if not self._pages and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _look(self) -> None:
        while True:
            version = await self._version()
            for page, told in self._pages.items():
                if told != version:
                    self._pages[page] = version
                    page.set()
            await asyncio.sleep(LOOK_S)
