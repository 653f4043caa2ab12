"""Settings and retries with which confluent-kafka (librdkafka) survives a broker that is killed and restarted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

T = TypeVar("T")

_SETTINGS: Final = {
    "log_level": 3,
    # So that it reconnects soon after the broker has restarted.
    "reconnect.backoff.max.ms": 500,
    # With the default, "rebootstrap", librdkafka forgets the only broker while it is down and then never finds the
    # group's coordinator again: every send_offsets_to_transaction hangs (2.16.1, with Apache Kafka too).
    "metadata.recovery.strategy": "none",
}


def settings_of(keywords: Mapping[str, Any], **others: object) -> dict[str, Any]:
    """Return the keyword arguments as settings with dots, and the settings with which it survives its broker."""
    return {**_SETTINGS, **{name.replace("_", "."): value for name, value in {**keywords, **others}.items()}}


def insist(call: Callable[[], T]) -> T:
    """Return the result of the call, which is repeated as long as it fails with a retriable error."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
