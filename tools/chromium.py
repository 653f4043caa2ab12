"""The system's Chromium, driven by Playwright: for tests of the console and its pictures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    found = executable()
    assert found is not None, "there is no chromium on PATH"
    with sync_playwright() as playwright:
        # In a container, or as root, Chromium's sandbox cannot be set up. It is safe: only the test's pages are opened.
        started = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield started
        finally:
            started.close()
