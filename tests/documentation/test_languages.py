"""Pages in Chinese have the structure of the English ones: the same headings, the same code, the same pictures."""

from __future__ import annotations

import re

import pytest

from semel.lab.scenes import SCENES
from tests.documentation.blocks import ROOT, blocks_of

PAGES = [("README.md", "README.zh.md"), ("docs/lab.md", "docs/lab.zh.md")]
_MEASURED = re.compile(r"<!-- benchmarks:begin -->.*<!-- benchmarks:end -->", re.DOTALL)
_LINK = re.compile(r"\]\(([^)]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def headings(document: str) -> list[str]:
    """The levels, with numbers where a heading begins with one."""
    text = _FENCED.sub("", (ROOT / document).read_text())
    return [level + number for level, number in re.findall(r"^(#+) (\d*)", text, re.MULTILINE)]


def pictures(document: str) -> list[str]:
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / document).read_text())


@pytest.mark.parametrize(("english", "chinese"), PAGES)
def test_headings_are_the_same(english: str, chinese: str) -> None:
    assert headings(chinese) == headings(english)
    assert len(headings(english)) > 5


@pytest.mark.parametrize(("english", "chinese"), PAGES)
def test_code_is_the_same(english: str, chinese: str) -> None:
    code = [(block.language, block.text) for block in blocks_of(english)]
    assert [(block.language, block.text) for block in blocks_of(chinese)] == code


@pytest.mark.parametrize(("english", "chinese"), PAGES)
def test_pictures_and_links_to_each_other_are_there(english: str, chinese: str) -> None:
    shown = [picture for picture in pictures(english) if "bench" not in picture]
    assert pictures(chinese) == shown
    names = [path.rpartition("/")[2] for path in (english, chinese)]
    assert f"]({names[1]})" in (ROOT / english).read_text()
    assert f"]({names[0]})" in (ROOT / chinese).read_text()


@pytest.mark.parametrize(("english", "chinese"), PAGES)
def test_tables_are_as_long_and_lead_to_the_same_pages(english: str, chinese: str) -> None:
    """But for the numbers of benchmarks, for which the Chinese page leads to the English one."""
    texts = [_MEASURED.sub("", (ROOT / page).read_text()) for page in (english, chinese)]
    led, led_in_chinese = ({link.replace(".zh.md", ".md") for link in _LINK.findall(text)} for text in texts)
    assert led_in_chinese == led
    rows, rows_in_chinese = (len(re.findall(r"^\|", text, re.MULTILINE)) for text in texts)
    assert rows_in_chinese == rows > 10


@pytest.mark.parametrize("page", ["docs/lab.md", "docs/lab.zh.md"])
def test_every_scene_has_a_section_with_its_pictures(page: str) -> None:
    numbers = [heading.removeprefix("##") for heading in headings(page) if heading.startswith("##")]
    assert numbers == [str(scene.number) for scene in SCENES]
    for scene in SCENES:
        assert f"pictures/lab-{scene.number:02}-{scene.name}.svg" in pictures(page)
