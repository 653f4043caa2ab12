"""The harness would notice: what it lets through is tested, because a document that is never wrong proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documentation.blocks import Block, Command, blocks_of, commands_of
from tests.documentation.console import Console
from tests.documentation.scripts import Scripts

NOWHERE = {"127.0.0.1:9092": "127.0.0.1:1"}


def console_block(text: str) -> Block:
    return Block("page.md", 1, "console", text)


def python_block(text: str, **notes: str) -> Block:
    return Block("page.md", 1, "python", text, **notes)  # type: ignore[arg-type]


def test_comments_belong_to_the_block_right_after_them() -> None:
    text = "<!-- until: x -->\nwords\n<!-- given: y -->\n<!-- raises: z -->\n```python\na\n```\n```console\n$ b\n```\n"
    first, second = blocks_of("page.md", text)
    assert (first.line, first.given, first.until, first.raises) == (5, "y", None, "z")
    assert (second.language, second.given, second.not_run) == ("console", "", None)


def test_output_and_remarks_follow_their_command() -> None:
    block = console_block("$ one \\\n>   more\n# a remark\nprinted\n$ two\n")
    assert commands_of(block) == [Command("one \\\n  more", ("printed",)), Command("two")]


@pytest.mark.parametrize(
    "text",
    [
        "$ false\n",
        "$ false | true\n",
        "$ echo one\ntwo\n",
        "$ printf '1\\n2\\n'\n1\n",
        "$ semel topic lost\n",
        "$ semel serve --set no.such=1\n",
    ],
)
def test_a_command_that_fails_or_prints_something_else_is_noticed(tmp_path: Path, text: str) -> None:
    with Console(tmp_path, dict(NOWHERE)) as console, pytest.raises(AssertionError):
        console.run(console_block(text))


def test_times_and_ports_may_differ_and_dots_stand_for_lines(tmp_path: Path) -> None:
    printed = r"at 2026-01-01T10:00:00Z\n1\n2\non 127.0.0.1:77\n"
    text = f"$ printf '{printed}'\nat 2020-02-02T00:00:00Z\n...\non 127.0.0.1:9092\n"
    with Console(tmp_path, dict(NOWHERE)) as console:
        console.run(console_block(text))


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (python_block("missing"), NameError),
        (python_block("import asyncio\nawait asyncio.sleep(0)\nmissing"), NameError),
        (python_block("import asyncio\nawait asyncio.sleep(0)", until="False"), AssertionError),
        (python_block("pass", raises="TOPIC_ALREADY_EXISTS"), AssertionError),
        (python_block("\ndef test_it():\n    assert False"), AssertionError),
    ],
)
def test_a_script_that_does_not_do_what_it_says_is_noticed(
    tmp_path: Path, block: Block, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        Scripts(tmp_path, NOWHERE, {}).run(block)
