"""The loggers of this process and their levels (resource type 8), under Kafka's names for levels.

An altered level lasts until the broker stops: it is neither stored in the metadata nor sent to other brokers, and a
restarted broker has the levels of its command line. ``root`` is the parent of all loggers. A broker inside another
program, as with ``semel.testing``, shares its loggers with that program, whose levels are restored when the broker
stops.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from semel.errors import ErrorCode, KafkaError
from semel.metadata.alter_configs import Alteration, AlterKind

ROOT: Final = "root"
_OURS: Final = "semel"
_TRACE: Final = 5

LEVELS: Final[Mapping[str, int]] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": _TRACE,
    "WARN": logging.WARNING,
}


def levels() -> dict[str, str]:
    """Return the effective level of each logger: its own, or that of its nearest parent that has one."""
    return {name: _named(logger.getEffectiveLevel()) for name, logger in _loggers().items()}


def decide(alterations: Sequence[Alteration]) -> dict[str, int]:
    """Return the levels that the alterations set. Raises ``KafkaError`` with Kafka's code if any of them is invalid."""
    if any(times > 1 for times in Counter(alteration.name for alteration in alterations).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    known = _loggers()
    return {alteration.name: _level(alteration, known) for alteration in alterations}


def apply(decided: Mapping[str, int], before: dict[str, int]) -> None:
    """Set the levels of loggers. With NOTSET the level of the parent counts.

    The level that a logger had before its first change is put into ``before``, for ``restore``.
    """
    loggers = _loggers()
    for name, level in decided.items():
        before.setdefault(name, loggers[name].level)
        loggers[name].setLevel(level)


def restore(before: dict[str, int]) -> None:
    """Set the levels that loggers had before they were altered, and empty ``before``."""
    loggers = _loggers()
    while before:
        name, level = before.popitem()
        loggers[name].setLevel(level)


def _loggers() -> dict[str, logging.Logger]:
    found = logging.Logger.manager.loggerDict
    ours = {
        name: logger
        for name, logger in list(found.items())
        if isinstance(logger, logging.Logger) and (name == _OURS or name.startswith(f"{_OURS}."))
    }
    return {ROOT: logging.root, **ours}


def _level(alteration: Alteration, known: Mapping[str, logging.Logger]) -> int:
    name, kind, value = alteration.name, alteration.kind, alteration.value
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    match kind:
        case AlterKind.SET if value is not None and value in LEVELS:
            return LEVELS[value]
        case AlterKind.SET:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {value} as it is not a supported log level. Valid log levels "
                f"are {', '.join(LEVELS)}",
            )
        case AlterKind.DELETE if name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        case AlterKind.DELETE:
            return logging.NOTSET
        case AlterKind.APPEND | AlterKind.SUBTRACT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{AlterKind(kind).name} operation is not allowed for the BROKER_LOGGER resource",
            )
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {kind} for config {name}")


def _named(level: int) -> str:
    """Return Kafka's name of the nearest level that logs at least as much."""
    below = [(number, name) for name, number in LEVELS.items() if number <= level]
    return max(below)[1] if below else "TRACE"
