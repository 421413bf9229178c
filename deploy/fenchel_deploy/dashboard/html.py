"""The HTML around documents: of the page, whose scripts are files of its server, and of the report, which has them."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from fenchel_deploy.dashboard.documents import FORMAT, Document, plain

STYLE: Final = "page.css"
SCRIPTS: Final = ("forms.js", "charts.js", "parts.js", "page.js")
"""In the order in which they are loaded. Plotly is large, so the page shows all but charts before it asks for it."""
PLOTLY: Final = "plotly.js"

_BODY = """<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><div>
<a class="wordmark" href="{home}">Fenchel</a>
{middle}<span class="pulse" id="pulse" role="status" hidden></span>
<span class="push"></span>
<button type="button" id="theme">Dark</button>
</div></header>
<main id="main"></main>
"""
_RUNS = """<label hidden>Run <select id="runs"></select></label>
<a id="compare" href="/compare" hidden>Compare runs</a>
"""


def as_json(documents: Sequence[Document]) -> str:
    """The documents as the page's server sends them, and as `fenchel report --format json` prints them."""
    content = {"format": FORMAT, "documents": [plain(one) for one in documents]}
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


@cache
def static(name: str) -> bytes:
    """A style or script, and Plotly's from its own package."""
    if name == PLOTLY:
        return files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return files("fenchel_deploy.dashboard").joinpath("static", name).read_bytes()


def page(view: str) -> str:
    """The page; `view` is "server" or "party"."""
    scripts = "".join(f'<script defer src="/static/{name}"></script>\n' for name in SCRIPTS)
    middle = _RUNS if view == "server" else ""
    return _html(
        "Fenchel",
        f'<link rel="stylesheet" href="/static/{STYLE}">\n{scripts}',
        f'<body data-view="{view}" data-plotly="/static/{PLOTLY}">\n{_BODY.format(home="/", middle=middle)}',
    )


def login() -> str:
    """The question for the token; it says nothing of the federation."""
    form = (
        '<main class="login"><h1>Fenchel</h1><form method="post" action="/token">'
        '<label for="token">Token</label><input id="token" name="token" type="password" autocomplete="off" required>'
        "<button>Show</button></form></main>"
    )
    return _html("Fenchel", f'<link rel="stylesheet" href="/static/{STYLE}">', f"<body>\n{form}")


def report_page(documents: Sequence[Document]) -> str:
    """One file that opens from disk and needs nothing else; its policy allows no request, and no script but its own."""
    scripts = [static(name).decode() for name in (*SCRIPTS, PLOTLY)]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    # Within a script element, "<" could end the element; in JSON it can be written as an escape.
    content = as_json(documents).replace("<", "\\u003c")
    title = html.escape(documents[0].title)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{static(STYLE).decode()}</style>'
    data = f'<script type="application/json" id="documents">{content}</script>'
    body = f"<body>\n{_BODY.format(home='#main', middle='')}{data}"
    return _html(f"{title} – Fenchel", head, body + "".join(f"\n<script>{script}</script>" for script in scripts))


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _html(title: str, head: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n{head}\n</head>\n{body}\n</body>\n</html>\n"
    )
