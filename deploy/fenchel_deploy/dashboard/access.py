"""Who may look at the page: by the name it is asked for, by a token, and beyond this machine over TLS alone.

On the loopback address a token is optional: whoever has an account on this machine can connect there. A page in the
browser that makes a name of its own lead to this machine (DNS rebinding) is refused by the name that it asks for.
"""

import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address
from fenchel_deploy.dashboard.html import login

FEWEST_CHARACTERS: Final = 16
"""A shorter token could be guessed."""
MOST_FORM_BYTES: Final = 4096
COOKIE: Final = "fenchel_page"
OPEN_PATHS: Final = ("/static/",)
"""Reached without the token: the style and the scripts, which are the same everywhere."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No script and no style from elsewhere, no script within a page. Styles within it are allowed for Plotly's sake."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one page. `hosts` are the names under which it may be asked for."""

    hosts: frozenset[str]
    token: str | None = field(default=None, repr=False)
    tls: bool = False
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """What a browser shows after it has given the token; it is of this process alone."""

    @classmethod
    def at(cls, address: Address, *, token: str | None, tls: bool, names: Iterable[str] = ()) -> "Access":
        """The rules of a page at that address; raises `InvalidInput` if it would be open to others."""
        if token is not None and len(token) < FEWEST_CHARACTERS:
            raise InvalidInput(f"the token has fewer than {FEWEST_CHARACTERS} characters, so it could be guessed")
        if not address.loopback and (token is None or not tls):
            raise InvalidInput(
                f"--listen {address}: beyond this machine the page needs a token (--token-file) and TLS (--tls); "
                "without them it listens on the loopback address alone"
            )
        return cls(
            frozenset({address.host, *names}) | (LOOPBACK_NAMES if address.loopback else frozenset()), token, tls
        )

    def knows_host(self, headers: Headers) -> bool:
        """Whether the page is asked for under one of its names."""
        host = headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return name.lower() in self.hosts

    def admits(self, headers: Headers) -> bool:
        """Whether the caller has given the token."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self.session)

    async def log_in(self, request: Request) -> Response:
        """The answer to the form with the token."""
        given = await _token_of(request)
        if self.token is None or not _same(given, self.token):
            return HTMLResponse(login(), 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self.session, httponly=True, samesite="strict", secure=self.tls, path="/")
        return answer


class Guard:
    """Applies the rules to every request before anything else sees it, and sets the headers of every answer.

    `end` ends what would go on for ever; whoever runs the application calls it when the process is to end.
    """

    def __init__(self, app: ASGIApp, access: Access, *, end: Callable[[], None]) -> None:
        self._app = app
        self._access = access
        self.end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if self._access.tls:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._access.knows_host(headers):
            return PlainTextResponse("unknown host", 421)
        if path == "/token" or path.startswith(OPEN_PATHS) or self._access.admits(headers):
            return None
        wants_page = "text/html" in headers.get("accept", "")
        return HTMLResponse(login(), 401) if wants_page else PlainTextResponse("", 401)


async def _token_of(request: Request) -> str:
    """The token in a form; empty if the form is too long, or is none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            return ""
    try:
        return parse_qs(body.decode("ascii")).get("token", [""])[0]
    except (ValueError, UnicodeDecodeError):
        return ""


def _same(given: str, right: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode(), right.encode())
