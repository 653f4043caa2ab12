"""Texts of the lab in the language of the audience. Kafka's terms are the same in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.lab.chinese import CHINESE

LANGUAGES: Final = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence with values in braces, and the values."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def of(self, language: str) -> str:
        values = {
            name: translated(value, language) if isinstance(value, str) else value
            for name, value in self.values.items()
        }
        return translated(self.template, language).format(**values)


def translated(text: str, language: str) -> str:
    """The text itself, where it has no translation."""
    return CHINESE.get(text, text) if language == "zh" else text
