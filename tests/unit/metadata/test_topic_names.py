"""Topic names: Kafka's rules."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.metadata.topic_names import check_topic_name, why_illegal


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "...", "x" * 249, "__consumer_offsets", "-"])
def test_legal_names_are_taken(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_illegal_names_are_refused_with_kafkas_words(name: str, reason: str) -> None:
    assert why_illegal(name) == reason
    with pytest.raises(KafkaError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message == f"Topic name is invalid: {reason}"
