"""The values of options: client settings, ``KEY=VALUE``, ``TOPIC:PARTITION``. A bad value raises ``UsageError``."""

from __future__ import annotations

import argparse
from typing import Any

from semel.cli.exits import UsageError


def client_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The keywords for ``Producer``, ``Consumer`` and ``Admin``."""
    from semel.settings import parse_properties

    texts: dict[str, str] = {}
    if options.command_config is not None:
        texts.update(parse_properties(file_text("--command-config", options.command_config)))
    texts.update(key_and_value("--command-property", text) for text in options.command_property)
    texts.setdefault("bootstrap.servers", options.bootstrap_server)
    return {name.replace(".", "_"): value for name, value in texts.items()}


def file_text(option: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{option} {path} cannot be read: {reason}") from None


def key_and_value(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"{option} {text}: it takes the form KEY=VALUE")
    return name.strip(), value


def partition_of(option: str, text: str) -> tuple[str, int]:
    """``topic:partition``, as Kafka's tools write it."""
    topic, colon, index = text.rpartition(":")
    if not colon or not topic or not (index.isascii() and index.isdigit()):
        raise UsageError(f"{option} {text}: it takes the form TOPIC:PARTITION")
    return topic, int(index)
