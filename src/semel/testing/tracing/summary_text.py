"""Formats the shown fields of a message as one line of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_SHOWN_MAX: Final = 4
_TEXT_SIZE_MAX: Final = 60


def text_of(values: Mapping[str, Any]) -> str:
    """Return ``name=value name=value``, with the entries of a list as ``orders:0(epoch=1 sequence=7)``."""
    return " ".join(_item_text(name, value) for name, value in values.items())


def _item_text(name: str, value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        shown = " ".join(_entry_text(entry) for entry in value[:_SHOWN_MAX])
        return shown + (f" and {len(value) - _SHOWN_MAX} more" if len(value) > _SHOWN_MAX else "")
    if isinstance(value, list):
        more = f",+{len(value) - _SHOWN_MAX}" if len(value) > _SHOWN_MAX else ""
        return f"{name}=[{','.join(map(_scalar_text, value[:_SHOWN_MAX]))}{more}]"
    return f"{name}={_scalar_text(value)}"


def _entry_text(entry: Mapping[str, Any]) -> str:
    (_, first), *rest = entry.items()
    return f"{_scalar_text(first)}({text_of(dict(rest))})" if rest else _scalar_text(first)


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    text = text if text.isprintable() and " " not in text else repr(text)
    return text if len(text) <= _TEXT_SIZE_MAX else text[: _TEXT_SIZE_MAX - 1] + "…"
