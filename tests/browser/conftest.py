"""A browser for the tests of the page; where there is none, they are skipped and say so."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.chromium import CHROMIUM, OPTIONS, PATIENCE_MS, Open

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Open]:
    """Opens pages that note every request, and fails if one of them left this machine or a script failed."""
    opened: list[Page] = []
    requests: list[str] = []
    faults: list[str] = []

    def open_one(**options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        opened.append(page)
        return page

    yield open_one
    for page in opened:
        page.context.close()
    local = ("http://localhost:", "file:///", "data:", "blob:")
    assert [url for url in requests if not url.startswith(local)] == []
    assert faults == []
