"""confluent-kafka, which is librdkafka, while its broker is killed and comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

T = TypeVar("T")

_SETTINGS: Final = {
    "log_level": 3,
    # So that it is back soon after its broker is.
    "reconnect.backoff.max.ms": 500,
    # Its default, "rebootstrap", forgets the one broker there is while it is down, and after that the group's
    # coordinator is never found again: every send_offsets_to_transaction hangs (2.16.1, on Apache Kafka too).
    "metadata.recovery.strategy": "none",
}


def settings_of(keywords: Mapping[str, Any], **others: object) -> dict[str, Any]:
    """Settings as keywords have them, with dots, and those without which it would not outlive its broker."""
    return {**_SETTINGS, **{name.replace("_", "."): value for name, value in {**keywords, **others}.items()}}


def insist(call: Callable[[], T]) -> T:
    """What the call returns; it is called again for as long as it fails with what may be tried again."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
