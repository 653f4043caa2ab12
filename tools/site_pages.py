"""Adds files from outside ``docs/`` to the site, such as README.md as its front page. mkdocs calls it as a hook.

The law: a page is written once, for readers of the repository. Here only its links are changed, and a link to a file
that is no page of the site becomes plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = {
    "index.md": "README.md",
    "index.zh.md": "README.zh.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
PICTURES: Final = {"pictures/bench.svg": "benchmarks/results/bench.svg"}
STYLES: Final = {"site.css": "tools/site.css"}

_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
_PICTURE: Final = re.compile(r"(!\[[^\]]*\])\(docs/([^)]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    from mkdocs.structure.files import File

    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=site_text((ROOT / source).read_text())))
    for path, source in {**PICTURES, **STYLES}.items():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    for picture, source in PICTURES.items():
        markdown = markdown.replace(f"(../{source})", f"({picture})")
    up = "../" * (page.file.src_uri.count("/") + 1)
    return _LINK.sub(lambda link: link[1] if link[2].startswith(up) else link[0], markdown)


def site_text(text: str) -> str:
    """Return the text of a page in the root of the repository, with the links changed for the site."""
    return _LINK.sub(_turned, _PICTURE.sub(r"\1(\2)", text))


def _turned(link: re.Match[str]) -> str:
    words, target, anchor = link[1], link[2], link[3] or ""
    for page, source in PAGES.items():
        if target == source:
            return f"[{words}]({page}{anchor})"
    if target.startswith("docs/") and target.endswith(".md"):
        return f"[{words}]({target.removeprefix('docs/')}{anchor})"
    return words
