"""Targets for texts that the broker parses: patterns of topics, settings, and settings in a file."""

from __future__ import annotations

from random import Random
from typing import Final

from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError
from semel.errors import DecodeError
from semel.log.config import LogConfig
from semel.settings import SettingError, declared_in, parse_properties
from tools.fuzz.target import Target

_NAMES: Final = tuple(setting.name for setting in declared_in(LogConfig))
_VALUES: Final = ("1", "-1", "true", "compact,delete", "zstd", "0.5", "CreateTime", "x", "9" * 30, "")
_PATTERNS: Final = ("orders-.*", "(a|b)+[0-9]{2,5}", "[^x-z]?(?:a*)*b", r"\w+\.\d", "^a$", "a{3}|b", "((((a))))*")


def targets() -> list[Target]:
    return [
        # The memory for a compiled pattern is bounded by limits of its own and not by the pattern's length.
        Target("pattern of topics", _pattern, _check_pattern, (RegexError,), unpacked_bytes_max=4 * 2**20, rounds=16),
        Target("settings of a topic", _setting, _check_setting, (SettingError,), is_served=False, rounds=16),
        Target("properties", _properties, _check_properties, rounds=8),
    ]


def _pattern(random: Random) -> bytes:
    return "".join(random.choice(_PATTERNS) for _ in range(random.randint(1, 2))).encode()


def _check_pattern(data: bytes) -> None:
    regex = Regex(data.decode(errors="replace"))
    for name in ("", "orders-1", "a" * 249):
        assert regex.matches(name) == regex.matches(name)


def _setting(random: Random) -> bytes:
    return f"{random.choice(_NAMES)}={random.choice(_VALUES)}".encode()


def _check_setting(data: bytes) -> None:
    name, _, value = data.decode(errors="replace").partition("=")
    LogConfig.from_settings({name: value})


def _properties(random: Random) -> bytes:
    return "\n".join(f"{name} = {random.choice(_VALUES)}" for name in random.sample(_NAMES, 3)).encode()


def _check_properties(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DecodeError("not text") from None
    parse_properties(text)
