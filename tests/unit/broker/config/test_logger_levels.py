"""Levels of loggers, under Kafka's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from semel.broker.config import logger_levels
from semel.errors import ErrorCode, KafkaError
from semel.metadata.alter_configs import Alteration, AlterKind

PARENT, CHILD = "semel.of_a_test", "semel.of_a_test.child"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    logging.getLogger(CHILD).setLevel(logging.NOTSET)
    logging.getLogger(PARENT).setLevel(logging.WARNING)
    yield
    logging.getLogger(PARENT).setLevel(logging.NOTSET)
    logging.getLogger(CHILD).setLevel(logging.NOTSET)


def test_the_level_that_counts_is_told() -> None:
    told = logger_levels.levels()
    assert (told[PARENT], told[CHILD]) == ("WARN", "WARN")
    assert told["root"] in logger_levels.LEVELS
    assert all(name == "root" or name.split(".")[0] == "semel" for name in told)


def test_levels_that_were_altered_are_as_before_when_the_broker_has_ended() -> None:
    before: dict[str, int] = {}
    logger_levels.apply(logger_levels.decide([Alteration(PARENT, AlterKind.SET, "DEBUG")]), before)
    logger_levels.apply(logger_levels.decide([Alteration(PARENT, AlterKind.SET, "FATAL")]), before)
    logger_levels.apply(logger_levels.decide([Alteration(CHILD, AlterKind.SET, "ERROR")]), before)
    logger_levels.restore(before)
    assert (logging.getLogger(PARENT).level, logging.getLogger(CHILD).level) == (logging.WARNING, logging.NOTSET)
    assert before == {}


def test_a_level_of_no_name_is_told_as_the_next_that_tells_more() -> None:
    logging.getLogger(PARENT).setLevel(logging.WARNING + 5)
    assert logger_levels.levels()[PARENT] == "WARN"


@pytest.mark.parametrize(
    ("name", "level"), [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_a_level_that_is_set_takes_effect_on_the_loggers_below(name: str, level: int) -> None:
    logger_levels.apply(logger_levels.decide([Alteration(PARENT, AlterKind.SET, name)]), {})
    assert logging.getLogger(CHILD).getEffectiveLevel() == level
    assert logger_levels.levels()[CHILD] == name


def test_a_logger_whose_level_is_removed_has_that_of_the_one_above() -> None:
    logger_levels.apply(logger_levels.decide([Alteration(CHILD, AlterKind.SET, "DEBUG")]), {})
    logger_levels.apply(logger_levels.decide([Alteration(CHILD, AlterKind.DELETE)]), {})
    assert logger_levels.levels()[CHILD] == "WARN"


@pytest.mark.parametrize(
    ("alterations", "code", "said"),
    [
        ([Alteration("semel.nothing", AlterKind.SET, "INFO")], ErrorCode.INVALID_CONFIG, "does not exist"),
        ([Alteration("asyncio", AlterKind.SET, "INFO")], ErrorCode.INVALID_CONFIG, "does not exist"),
        ([Alteration(PARENT, AlterKind.SET, "LOUD")], ErrorCode.INVALID_CONFIG, "Valid log levels are DEBUG, ERROR"),
        ([Alteration(PARENT, AlterKind.SET, None)], ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ([Alteration("root", AlterKind.DELETE)], ErrorCode.INVALID_REQUEST, "root logger is not allowed"),
        ([Alteration(PARENT, AlterKind.APPEND, "INFO")], ErrorCode.INVALID_REQUEST, "APPEND operation"),
        ([Alteration(PARENT, 9, "INFO")], ErrorCode.INVALID_REQUEST, "Unknown operation type 9"),
        ([Alteration(PARENT, AlterKind.SET, "INFO")] * 2, ErrorCode.INVALID_REQUEST, "duplicate"),
    ],
)
def test_what_cannot_be_is_refused(alterations: list[Alteration], code: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        logger_levels.decide([Alteration(CHILD, AlterKind.SET, "DEBUG"), *alterations])
    assert refused.value.code is code
    assert logger_levels.levels()[CHILD] == "WARN"
