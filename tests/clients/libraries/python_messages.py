"""A message of kafka-python or aiokafka: they have the same attributes."""

from __future__ import annotations

from typing import Any

from tests.clients.libraries import CREATE_TIME, LOG_APPEND_TIME, Record, Stored


def stored(message: Any) -> Stored:
    timestamp_type = LOG_APPEND_TIME if message.timestamp_type == 1 else CREATE_TIME
    record = Record(message.value, message.key, tuple(message.headers), message.timestamp)
    return Stored(message.offset, timestamp_type, record)
