"""Texts of the lab in the language of the audience. Kafka's terms are the same in all languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.lab.chinese import CHINESE

LANGUAGES: Final = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence with names in braces, and the values that replace them."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def of(self, language: str) -> str:
        values = {
            name: translated(value, language) if isinstance(value, str) else value
            for name, value in self.values.items()
        }
        return translated(self.template, language).format(**values)


def translated(text: str, language: str) -> str:
    """Return the translation of a text; the text itself if it has none."""
    return CHINESE.get(text, text) if language == "zh" else text
