"""The code in a document: fenced blocks, each with what the comments right before it say about running it.

    <!-- not run: it takes minutes -->       the reason is for the reader of the source; without one it is run
    <!-- given: lines = [b"one"] -->         what must be there first; in the language of the block
    <!-- until: printed("one") -->           for a block that never ends: when this is true it is ended
    <!-- raises: TOPIC_ALREADY_EXISTS -->    for a block that shows an error
    <!-- alone: it is the first -->          for a block that is a whole program: it gets no names from elsewhere

The law: a block whose language is in ``RUN`` is run or says why not, and no block hides behind another language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

RUN: Final = frozenset({"console", "python"})
SHOWN: Final = frozenset({"", "properties", "text", "toml"})
"""What is only looked at: files, and what a terminal shows."""

_FENCE: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)
_COMMENTS: Final = re.compile(r"(?:<!--(?:(?!-->).)*-->\s*)+\Z", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--\s*(not run|given|until|raises|alone):\s*(.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    document: str
    line: int
    language: str
    text: str
    not_run: str | None = None
    given: str = ""
    until: str | None = None
    raises: str | None = None
    alone: str | None = None

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def documents() -> list[str]:
    """Everything that a user reads, by path."""
    pages = [ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "examples/README.md")]
    return [str(page.relative_to(ROOT)) for page in [*pages, *sorted((ROOT / "docs").rglob("*.md"))]]


def blocks_of(document: str, text: str | None = None) -> list[Block]:
    text = (ROOT / document).read_text() if text is None else text
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        comments = _COMMENTS.search(before)
        notes: dict[str, str] = dict(_COMMENT.findall(comments.group())) if comments else {}
        found.append(
            Block(
                document,
                before.count("\n") + 1,
                fence.group(1),
                fence.group(2),
                notes.get("not run"),
                notes.get("given", ""),
                notes.get("until"),
                notes.get("raises"),
                notes.get("alone"),
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A line behind ``$``, and what the document says that it prints. Lines behind ``#`` are remarks."""

    text: str
    output: tuple[str, ...] = ()


def commands_of(block: Block) -> list[Command]:
    found: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + next(lines).removeprefix("> ")
            found.append(Command(command))
        elif not line.startswith("# "):
            assert found, f"{block}: {line!r} stands before any command"
            found[-1] = Command(found[-1].text, (*found[-1].output, line))
    return found
