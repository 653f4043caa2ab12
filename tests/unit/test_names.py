"""The house rules that can be counted: names, folders and words of ``src``."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import semel

SRC = Path(semel.__file__).parent
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"

MODULES_MAX = 20
ONE_FILE_EACH = {"broker/requests/handlers", "wire/messages", "cli/commands"}
"""Folders with one file for each API, or for each family of subcommands."""
WORDS = re.compile(r"\b(whoever|somebody|nobody|anew)\b", re.IGNORECASE)
WORDS_MAX = 30


def modules() -> Iterator[tuple[str, str]]:
    """The path below ``semel`` and the text of each module."""
    for path in sorted(SRC.rglob("*.py")):
        yield path.relative_to(SRC).as_posix(), path.read_text()


def layer_of() -> dict[str, str]:
    """The layer of each package and module right below ``semel``, as the contract "Imports point down" has it."""
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == "Imports point down"]
    return {
        package.strip().removeprefix("semel."): layer for layer in contract["layers"] for package in layer.split("|")
    }


def test_no_two_public_classes_of_a_layer_have_the_same_name() -> None:
    """Except the structs of messages: they have Kafka's names, which repeat; the file of their API tells them apart."""
    layers = layer_of()
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, text in modules():
        if path.startswith("wire/messages/"):
            continue
        package = path.partition("/")[0].removesuffix(".py")
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[layers.get(package, package), node.name].append(path)
    assert {name: paths for (_, name), paths in places.items() if len(paths) > 1} == {}


def test_a_folder_has_at_most_twenty_modules() -> None:
    """With its ``__init__.py``."""
    counts: dict[str, int] = defaultdict(int)
    for path, _ in modules():
        folder = path.rpartition("/")[0]
        if folder not in ONE_FILE_EACH:
            counts[folder] += 1
    assert {folder: count for folder, count in counts.items() if count > MODULES_MAX} == {}


def test_a_package_says_what_goes_on_in_it() -> None:
    packages = [(path, text) for path, text in modules() if path.endswith("__init__.py")]
    assert [path for path, text in packages if not ast.get_docstring(ast.parse(text))] == []


def test_the_four_words_are_rare() -> None:
    found = [f"{path}: {word}" for path, text in modules() for word in WORDS.findall(text)]
    assert len(found) < WORDS_MAX, "\n".join(found)


def test_a_time_that_never_comes_has_one_name() -> None:
    assert len([path for path, text in modules() if re.search(r"^_NEVER\b", text, re.MULTILINE)]) <= 1


def test_a_number_that_stands_for_nothing_is_known_to_the_codec_only() -> None:
    assert [path for path, text in modules() if "_or_none(" in text and not path.startswith("wire/")] == []


def test_absent_becomes_a_number_in_messages_and_files_only() -> None:
    known = ("wire/", "log/", "metadata/")  # Those that know the formats.
    pattern = re.compile(r"-1 if [\w.]+ is None\b")
    assert [path for path, text in modules() if pattern.search(text) and not path.startswith(known)] == []


def test_a_result_carries_its_own_error() -> None:
    pattern = re.compile(r"isinstance\(\w+, ErrorCode\)")
    callers = [path for path, text in modules() if path.startswith("broker/requests/") and pattern.search(text)]
    assert callers == []
