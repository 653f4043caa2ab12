"""``docs/client.md`` tells the truth about settings. Run as a program, this writes its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
