"""``docs/client.md`` tells the truth about settings. Run as a program, this writes its tables."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from semel import Consumer, Producer, blocking
from semel.client.config.admin import AdminConfig
from semel.client.config.common import CLIENT_SETTINGS
from semel.client.config.consumer import ConsumerConfig
from semel.client.config.producer import ProducerConfig
from semel.settings import Setting, declared_in

PAGE = Path(__file__).parents[4] / "docs" / "client.md"

TABLES = {
    "Of all": list(CLIENT_SETTINGS),
    "Of a producer": declared_in(ProducerConfig),
    "Of a consumer": declared_in(ConsumerConfig),
    "Of an admin client": declared_in(AdminConfig),
}


def row(setting: Setting) -> str:
    default = "" if setting.default in (None, (), "") else f"`{setting.text(setting.default)}`"
    return f"| `{setting.attribute}` | {default} | {setting.doc} |"


def table_under(heading: str, text: str) -> list[str]:
    section = text.split(f"### {heading}\n", 1)[1].split("\n#", 1)[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("heading", TABLES)
def test_every_setting_is_documented_with_its_default(heading: str) -> None:
    assert table_under(heading, PAGE.read_text()) == [row(setting) for setting in TABLES[heading]]


# What is there for the blocking twin, for the transaction of a consumer, and for Spark; not for applications.
PLUMBING = {
    *("start", "wake", "send_batch", "begin_consuming", "commit_or_abandon", "abandon"),
    *("begin_commit", "unsettled", "settled", "disconnect"),
}


def calls(client: type) -> dict[str, Any]:
    return {
        name: call
        for name, call in vars(client).items()
        if inspect.isfunction(call) and not name.startswith("_") and name not in PLUMBING
    }


@pytest.mark.parametrize("client", [Producer, Consumer, blocking.Producer, blocking.Consumer], ids=repr)
def test_every_call_has_an_example(client: type) -> None:
    for name, call in calls(client).items():
        assert f".{name}(" in (call.__doc__ or ""), f"{client.__module__}: {name}"
        assert client.__module__.startswith("semel.client.blocking") <= ("await" not in call.__doc__), name


@pytest.mark.parametrize("client", [Producer, Consumer])
def test_the_blocking_twin_has_the_same_calls(client: type) -> None:
    twin = getattr(blocking, client.__name__)
    assert set(calls(twin)) == set(calls(client)) - {"drain"}  # A thread is held back by send itself.


def write() -> None:
    text = PAGE.read_text()
    for heading, settings in TABLES.items():
        before, rest = text.split(f"### {heading}\n", 1)
        rows = "\n".join(map(row, settings))
        head, _, tail = rest.partition("|---|---|---|\n")
        after = re.sub(r"\A(?:(?:\| `|@)[^\n]*\n)*", "", tail)
        rest = f"{head}|---|---|---|\n{rows}\n{after}"
        text = f"{before}### {heading}\n{rest}"
    PAGE.write_text(text)


if __name__ == "__main__":
    write()
