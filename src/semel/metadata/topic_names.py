"""Kafka's rules for the names of topics, with Kafka's error messages."""

from __future__ import annotations

import re
from typing import Final

from semel.errors import ErrorCode, KafkaError

TOPIC_NAME_LENGTH_MAX: Final = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_illegal(name: str) -> str | None:
    """Return what is wrong with the name of a topic, or ``None``."""
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        # With a partition's number after it, it is the name of a folder, and file systems allow 255 characters.
        return f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless the name is legal."""
    if (reason := why_illegal(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
