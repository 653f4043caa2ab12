"""Parses Java's ``sasl.jaas.config``: the options in ``some.LoginModule required username="u" password="p";``."""

from __future__ import annotations

import re
from typing import Final

_OPTION: Final = re.compile(r'([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;"\']+))')
_USER: Final = "user_"


def jaas_options(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _OPTION.finditer(text):
        quoted = match[2]
        found[match[1]] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else match[3] or match[4] or ""
    return found


def jaas_users(text: str) -> dict[str, str]:
    """Return the users in a broker's configuration for PLAIN, with their passwords: ``user_alice="secret"``."""
    options = jaas_options(text)
    return {name[len(_USER) :]: password for name, password in options.items() if name.startswith(_USER)}
