"""Takes the picture of the page in the README, of a real run; with a folder, also pictures to be looked at.

python -m browser.screenshots docs/dashboard.png            # the README's
python -m browser.screenshots docs/dashboard.png looks/     # and every width and theme, with 1 and 64 parties
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from fenchel_deploy.dashboard.beside import page_beside
from fenchel_deploy.demo import run_demo
from fenchel_deploy.demonstration import DemonstrationOptions
from support.chromium import CHROMIUM, OPTIONS, PATIENCE_MS
from support.stores import made_up_run

README_SIZE: Final = (1260, 1092)
WIDTHS: Final = (1400, 800, 380)
THEMES: Final = ("light", "dark")
GRIDS: Final = {"one": (1, 1), "sixty-four": (8, 8)}


def main(picture: Path, looks: Path | None) -> None:
    if CHROMIUM is None:
        raise SystemExit("there is no chromium on this machine (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="fenchel-screenshots-") as scratch:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        demo = Path(scratch) / "demo"
        run_demo(DemonstrationOptions(), directory=demo, tell=lambda event: print(event["event"], file=sys.stderr))  # noqa: T201
        with page_beside(demo / "server") as address:
            _take(browser, address, picture, width=README_SIZE[0], height=README_SIZE[1])
        if looks is not None:
            looks.mkdir(parents=True, exist_ok=True)
            for name, grid in GRIDS.items():
                made_up_run(Path(scratch) / name, rounds=300, grid=grid, name=name)
                _all_looks(browser, Path(scratch) / name, looks / name)
        browser.close()


def _all_looks(browser: Browser, state: Path, stem: Path) -> None:
    with page_beside(state) as address:
        for theme in THEMES:
            for width in WIDTHS:
                _take(browser, address, Path(f"{stem}-{width}-{theme}.png"), width=width, theme=theme)


def _take(
    browser: Browser, address: str, path: Path, *, width: int, height: int | None = None, theme: str = "light"
) -> None:
    """A picture of the top of the page, or of all of it if no height is given."""
    dark = theme == "dark"
    page = browser.new_page(
        viewport={"width": width, "height": height or 900}, color_scheme="dark" if dark else "light"
    )
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    page.wait_for_selector("main[data-drawn]")
    page.screenshot(path=path, full_page=height is None)
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
