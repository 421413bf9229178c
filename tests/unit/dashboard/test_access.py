"""Who may look at the page, and what the page says to others: nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address
from fenchel_deploy.dashboard.access import COOKIE, Access
from fenchel_deploy.dashboard.app import server_page
from fenchel_deploy.dashboard.state import StateView
from support.commands import run_fenchel
from support.stores import made_up_run

TOKEN = "correct horse battery"  # noqa: S105
HOME = Address("127.0.0.1", 8440)
WORLD = Address("0.0.0.0", 8440)  # noqa: S104
DATA = ("/", "/run/long", "/compare", "/api/runs", "/api/run/long", "/api/compare?run=long", "/api/events")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("state")
    made_up_run(found, rounds=3, grid=(2, 1))
    return found


@pytest.fixture
def open_page(directory: Path) -> Iterator[TestClient]:
    access = Access.at(HOME, token=None, tls=False)
    with TestClient(server_page(StateView(directory), access), base_url="http://localhost:8440") as page:
        yield page


@pytest.fixture
def closed_page(directory: Path) -> Iterator[TestClient]:
    access = Access.at(HOME, token=TOKEN, tls=False)
    with TestClient(server_page(StateView(directory), access), base_url="http://localhost:8440") as page:
        yield page


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": 'x="'},
        {"authorization": "Bearer é".encode()},
    ],
    ids=["none", "wrong", "scheme", "cookie", "broken", "latin"],
)
def test_without_the_token_nothing_is_told(closed_page: TestClient, path: str, headers: dict[str, str]) -> None:
    for accept in ("application/json", "text/html"):
        answer = closed_page.get(path, headers={**headers, "accept": accept})
        assert answer.status_code == 401
        assert not re.search("long|hospital|round|run", answer.text)


def test_a_program_gives_the_token_in_a_header(closed_page: TestClient) -> None:
    answer = closed_page.get("/api/run/long", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.json()["documents"][0]["title"] == "long"


def test_a_browser_gives_the_token_once_and_keeps_a_cookie_that_scripts_cannot_read(closed_page: TestClient) -> None:
    assert closed_page.post("/token", data={"token": "wrong"}).status_code == 401
    assert closed_page.post("/token", content=b"token=" + b"x" * 10_000).status_code == 401
    assert closed_page.post("/token", content="token=é".encode()).status_code == 401
    answer = closed_page.post("/token", data={"token": TOKEN}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert closed_page.get("/api/runs").status_code == 200


def test_a_cookie_goes_over_tls_alone_where_there_is_tls(directory: Path) -> None:
    access = Access.at(WORLD, token=TOKEN, tls=True, names=["page.example.org"])
    with TestClient(server_page(StateView(directory), access), base_url="https://page.example.org") as page:
        answer = page.post("/token", data={"token": TOKEN}, follow_redirects=False)
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "max-age" in answer.headers["strict-transport-security"]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "[::2]:8440", "127.0.0.1.evil.example:80"]
)
def test_a_page_asked_for_under_a_foreign_name_is_refused(open_page: TestClient, host: str) -> None:
    answer = open_page.get("/api/runs", headers={"host": host})
    assert (answer.status_code, answer.text) == (421, "unknown host")


@pytest.mark.parametrize("host", ["localhost:8440", "127.0.0.1:9", "[::1]:8440", "LOCALHOST"])
def test_the_names_of_this_machine_are_known(open_page: TestClient, host: str) -> None:
    assert open_page.get("/api/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "path", [*DATA[:-1], "/static/page.css", "/static/page.js", "/static/nothing.js", "/nowhere", "/api/run/no"]
)
def test_every_answer_has_the_policy(open_page: TestClient, path: str) -> None:
    answer = open_page.get(path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe-eval" not in str(policy)
    assert [name for name, value in policy.items() if "unsafe" in value] == ["style-src"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_has_no_script_of_its_own_and_none_from_elsewhere(open_page: TestClient) -> None:
    text = open_page.get("/").text
    sources = re.findall(r"<script([^>]*)>(.*?)</script>", text)
    assert all(re.search(r'src="/static/[\w.]+"', attributes) and not inside for attributes, inside in sources)
    assert not re.search(r"https?://|style=|onclick", text)


def test_an_unknown_run_is_told_as_such(open_page: TestClient) -> None:
    answer = open_page.get("/api/run/%3Cb%3E")
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no run <b>"})
    assert open_page.get("/api/compare").status_code == 400
    assert open_page.get("/static/..%2Fapp.py").status_code == 404


@pytest.mark.parametrize(("token", "tls"), [(None, False), (TOKEN, False), (None, True)])
def test_beyond_this_machine_a_page_needs_a_token_and_tls(token: str | None, tls: bool) -> None:
    with pytest.raises(InvalidInput, match="needs a token"):
        Access.at(WORLD, token=token, tls=tls)


def test_a_token_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="fewer than 16 characters"):
        Access.at(HOME, token="short", tls=False)  # noqa: S106


def test_secrets_are_not_shown() -> None:
    access = Access.at(HOME, token=TOKEN, tls=False)
    assert TOKEN not in repr(access)
    assert access.session not in repr(access)


def test_the_command_refuses_to_start_beyond_this_machine(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCHEL_DASHBOARD_TOKEN", raising=False)
    ended = run_fenchel("dashboard", "--state", directory, "--listen", "0.0.0.0:0")
    assert ended.exit_code == 2
    assert "needs a token (--token-file) and TLS (--tls)" in ended.stderr
