"""The page's server: a few addresses that give documents, and the files that draw them. It only reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fenchel_common.errors import FenchelError, InvalidInput, UnknownRun
from fenchel_deploy.dashboard.access import Access, Guard
from fenchel_deploy.dashboard.comparison import comparison_document
from fenchel_deploy.dashboard.documents import Document
from fenchel_deploy.dashboard.follower import MOST_PAGES, Follower
from fenchel_deploy.dashboard.html import PLOTLY, SCRIPTS, STYLE, as_json, page, static
from fenchel_deploy.dashboard.rundocument import run_document, run_entry
from fenchel_deploy.dashboard.state import StateView

MOST_COMPARED: Final = 12
TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}

T = TypeVar("T")


class PartySource(Protocol):
    """What a party's page shows."""

    def document(self) -> Document:
        """The party's own view as it is now."""
        ...

    def version(self) -> object:
        """Changes whenever the document may have changed."""
        ...


class Reader:
    """Runs everything that touches the files in one thread: it never holds up other requests, and needs no locks."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "state")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        self._thread.shutdown()


def server_page(state: StateView, access: Access) -> Guard:
    """The page of a server's state folder."""
    reader = Reader()

    async def runs(_: Request) -> Response:
        found, served = await reader.run(lambda: (state.runs(), state.served()))
        return JSONResponse({"runs": [run_entry(one, served=served) for one in reversed(found)]})

    async def run(request: Request) -> Response:
        word = request.path_params["run"]
        return await _documents(reader, lambda: [run_document(state.view(word))])

    async def compare(request: Request) -> Response:
        words = list(dict.fromkeys(request.query_params.getlist("run")))
        if not 1 <= len(words) <= MOST_COMPARED:
            raise InvalidInput(f"choose 1 to {MOST_COMPARED} runs to put side by side")
        return await _documents(reader, lambda: [comparison_document([state.view(word) for word in words])])

    def look() -> object:
        # Whoever has rounds left to read goes on with them here, a piece at each look.
        return state.version(), state.read_on()

    routes = [
        Route("/", _shell("server")),
        Route("/run/{run}", _shell("server")),
        Route("/compare", _shell("server")),
        Route("/api/runs", runs),
        Route("/api/run/{run}", run),
        Route("/api/compare", compare),
    ]
    return _guarded(routes, reader, look, state.close, access, first=state.read_newest)


def party_page(party: PartySource, access: Access) -> Guard:
    """The page of a party's state folder."""
    reader = Reader()

    async def document(_: Request) -> Response:
        return await _documents(reader, lambda: [party.document()])

    routes = [Route("/", _shell("party")), Route("/api/party", document)]
    return _guarded(routes, reader, party.version, lambda: None, access)


def _guarded(
    routes: list[Route],
    reader: Reader,
    look: Callable[[], object],
    close: Callable[[], None],
    access: Access,
    *,
    first: Callable[[], None] = lambda: None,
) -> Guard:
    follower = Follower(lambda: reader.run(look))

    async def events(_: Request) -> Response:
        if follower.full:
            return JSONResponse({"error": f"more than {MOST_PAGES} pages are open"}, 503)
        return StreamingResponse(follower.words(), media_type="text/event-stream")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # A long run is read while its reader still opens the browser.
        reading = asyncio.create_task(reader.run(first))
        yield
        await asyncio.wait([reading])
        await reader.run(close)
        reader.close()

    further = [
        Route("/api/events", events),
        Route("/static/{name}", _file),
        Route("/token", access.log_in, methods=["POST"]),
    ]
    return Guard(
        Starlette(routes=[*routes, *further], lifespan=lifespan, exception_handlers={FenchelError: _failed}),
        access,
        end=follower.end,
    )


async def _documents(reader: Reader, made: Callable[[], Sequence[Document]]) -> Response:
    """The documents as JSON; made and written in the reading thread."""
    return Response(await reader.run(lambda: as_json(made())), media_type="application/json")


def _shell(view: str) -> Callable[[Request], Response]:
    return lambda _: HTMLResponse(page(view))


def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in (STYLE, PLOTLY, *SCRIPTS):
        return Response("", 404)
    return Response(static(name), media_type=TYPES[name.rpartition(".")[2]])


async def _failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404 if isinstance(error, UnknownRun) else 400)
