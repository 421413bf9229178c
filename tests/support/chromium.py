"""Debian's Chromium, headless, without anything that asks for the network by itself."""

import shutil
from collections.abc import Callable

from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000

Open = Callable[..., Page]
