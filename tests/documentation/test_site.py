"""The site builds without a warning, holds every page, and needs nothing from elsewhere to be read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.blocks import ROOT
from tools.site_pages import PAGES, site_text

pytest.importorskip("mkdocs", reason="mkdocs is in the extra `docs`")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_of_the_repository_is_there_and_in_the_menu(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {Path(page).with_suffix(".html") for page in PAGES}
    menu = (site / "index.html").read_text()
    assert {page for page in pages if not (site / page).exists()} == set()
    assert {str(page) for page in pages if f'href="{page}"' not in menu} - {"index.html"} == set()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*src="([^"]+)"|<link[^>]*href="([^"]+)"', page.read_text())
        elsewhere = [one for found in loaded for one in found if one.startswith(("http:", "https:", "//"))]
        assert elsewhere == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet.name


def test_links_of_the_front_page_are_turned_to_where_the_site_has_them() -> None:
    page = "[a](docs/a.md) [b](CHANGELOG.md#x) [c](examples/c.py) ![d](docs/pictures/d.svg) [e](https://e.org)"
    assert site_text(page) == "[a](a.md) [b](changelog.md#x) c ![d](pictures/d.svg) [e](https://e.org)"
