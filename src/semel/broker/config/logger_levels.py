"""The loggers of this process and their levels (resource type 8), under Kafka's names for levels.

A level lasts as long as the broker: it is neither kept in the metadata nor told to other brokers, and a restart begins
with those of the command line. ``root`` is the logger above all others. A broker inside another program, as in
``semel.testing``, shares its loggers with that program, which has its own levels again when the broker has ended.
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
    """The level that counts for each logger, whether it is its own or that of one above."""
    return {name: _named(logger.getEffectiveLevel()) for name, logger in _loggers().items()}


def decide(alterations: Sequence[Alteration]) -> dict[str, int]:
    """The levels that loggers are to have, all or none. Raises ``KafkaError`` with Kafka's code for why not."""
    if any(times > 1 for times in Counter(alteration.name for alteration in alterations).values()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    known = _loggers()
    return {alteration.name: _level(alteration, known) for alteration in alterations}


def apply(decided: Mapping[str, int], before: dict[str, int]) -> None:
    """Let loggers have levels from now on; without a level of its own, the one above counts. What they had before the
    first change is put into ``before``, for ``restore``."""
    loggers = _loggers()
    for name, level in decided.items():
        before.setdefault(name, loggers[name].level)
        loggers[name].setLevel(level)


def restore(before: dict[str, int]) -> None:
    """Let loggers have the levels that they had before they were altered."""
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
    """Kafka's name of the nearest level that tells at least as much."""
    below = [(number, name) for name, number in LEVELS.items() if number <= level]
    return max(below)[1] if below else "TRACE"
