"""Parsing the values of options: client settings, ``KEY=VALUE``, ``TOPIC:PARTITION``, escapes. Bad values raise
``UsageError``."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from semel.cli.exits import UsageError
from semel.cli.parsing import CONFIG_VARIABLE

if TYPE_CHECKING:
    import ssl


def client_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for ``Producer``, ``Consumer`` and ``Admin``, after a broker has answered.

    Raises ``TimedOut`` if no broker answers.
    """
    from semel.cli.reachability import WITHIN_S, await_broker
    from semel.client.config.common import addresses

    texts = _client_texts(options)
    texts.setdefault("bootstrap.servers", options.bootstrap_server)
    timeout_ms = texts.get("default.api.timeout.ms", "")
    within_s = min(WITHIN_S, int(timeout_ms) / 1000) if timeout_ms.isdecimal() else WITHIN_S
    settings = {name.replace(".", "_"): value for name, value in texts.items()}
    await_broker(addresses(texts["bootstrap.servers"].split(",")), has_tls=has_tls(settings), within_s=within_s)
    return settings


def broker_tls(options: argparse.Namespace, servers: str) -> ssl.SSLContext | None:
    """Return the TLS context of a client of these brokers; ``None`` if its settings have no TLS. SASL is ignored.

    Raises ``SettingError``.
    """
    from semel.client.config.admin import AdminConfig
    from semel.client.security.tls import tls_context

    settings = {name.replace(".", "_"): value for name, value in _client_texts(options).items()}
    if not has_tls(settings):
        return None
    own = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    config = AdminConfig.load({**own, "bootstrap_servers": servers, "security_protocol": "SSL"})
    return tls_context(config.client.security)


def _client_texts(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings of the client under Kafka's names, from the file and from the arguments."""
    from semel.cli.exposed_secrets import warn_of_arguments, warn_of_file
    from semel.settings import parse_properties

    texts: dict[str, str] = {}
    option, path = "--command-config", options.command_config
    if path is None:
        option, path = f"${CONFIG_VARIABLE}", os.environ.get(CONFIG_VARIABLE)
    if path:
        texts.update(parse_properties(file_text(option, path)))
        warn_of_file(option, path, texts)
    given = dict(_property(text) for text in options.command_property)
    warn_of_arguments("--command-property", given, f"--command-config FILE or ${CONFIG_VARIABLE}")
    texts.update(given)
    return texts


def _property(text: str) -> tuple[str, str]:
    if "=" not in text:
        # The text may contain a password, so the message does not repeat it.
        raise UsageError("--command-property takes the form KEY=VALUE, and one has no =")
    return key_and_value("--command-property", text)


def has_tls(settings: Mapping[str, Any]) -> bool:
    return "SSL" in settings.get("security_protocol", "PLAINTEXT").upper().split("_")


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
    """Parse ``topic:partition``, the form of Kafka's tools."""
    topic, colon, index = text.rpartition(":")
    if not colon or not topic or not (index.isascii() and index.isdigit()):
        raise UsageError(f"{option} {text}: it takes the form TOPIC:PARTITION")
    return topic, int(index)


_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


def unescaped(text: str) -> str:
    """Replace escapes in a text, such as a backslash and a ``t`` by a tab: shells do not replace them."""
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text)
