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


def test_diagrams_are_pictures_that_are_there(site: Path) -> None:
    shown = 0
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "stateDiagram" not in text, page.name
        for source in re.findall(r'<img[^>]*src="([^"]+)"', text):
            assert (page.parent / source).resolve().exists(), (page.name, source)
            shown += 1
    assert shown >= 6


def test_code_is_colored(site: Path) -> None:
    page = (site / "client.html").read_text()
    colored = re.findall(r'<div class="codehilite"[^>]*><pre.*?</pre>', page, re.DOTALL)
    assert colored
    assert all("<span style=" in block for block in colored)
    assert "<pre><code" not in page


def test_tables_and_code_scroll_within_the_page(site: Path) -> None:
    """The widest pages have tables of long names; the style that lets them scroll must reach every page."""
    for page in site.rglob("*.html"):
        if page.name not in ("404.html", "search.html"):
            text = page.read_text()
            assert re.search(r'<link href="(?:\.\./)*site\.css"', text), page.name
            assert '<div class="col-md-9" role="main">' in text, page.name
    rules = re.findall(r"([^{}]+)\{([^}]*)\}", (site / "site.css").read_text())
    scrolling = [selector for selector, body in rules if "overflow-x: auto" in body]
    assert any("table" in selector for selector in scrolling)
    assert any(" pre" in selector for selector in scrolling)
