"""Files and functions that documents name exist."""

from __future__ import annotations

import re

import pytest

from tests.documentation.blocks import ROOT, documents
from tests.documentation.code_references import Reference, exists, references_in


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md"])
def test_every_file_and_function_of_the_map_exists(page: str) -> None:
    references = references_in((ROOT / page).read_text())
    assert references
    assert [str(reference) for reference in references if not exists(reference)] == []


@pytest.mark.parametrize("page", sorted({*documents(), "tests/README.md"}))
def test_every_file_that_a_page_names_by_its_path_exists(page: str) -> None:
    references = [reference for reference in references_in((ROOT / page).read_text()) if "/" in reference.path]
    assert [str(reference) for reference in references if not exists(reference)] == []


@pytest.mark.parametrize(("heading", "folder"), [("package", "src/semel"), ("folder of `broker`", "src/semel/broker")])
def test_the_tables_of_packages_have_every_package(heading: str, folder: str) -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page[page.index(f"| {heading} |") :].split("\n\n", 1)[0]
    packages = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == packages


def test_references_are_found_with_and_without_a_name() -> None:
    text = "`a/b.py` and `a/b.py: C.d`, not `b` nor `a/b.md`\n```\n`a/c.py`\n```\n"
    assert references_in(text) == [Reference("a/b.py"), Reference("a/b.py", "C.d")]


@pytest.mark.parametrize(
    ("reference", "is_there"),
    [
        (Reference("errors.py", "ErrorCode"), True),
        (Reference("errors.py", "ErrorCode.NONE"), True),
        (Reference("src/semel/errors.py"), True),
        (Reference("errors.py", "ErrorCode.NO_SUCH_ERROR"), False),
        (Reference("errors.py", "no_such_function"), False),
        (Reference("no_such_file.py"), False),
    ],
)
def test_a_reference_to_what_is_not_there_is_noticed(reference: Reference, is_there: bool) -> None:
    assert exists(reference) is is_there
