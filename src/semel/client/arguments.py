"""Checks of the arguments of ``send`` and ``send_many``, before a record is accepted, and of other calls.

A wrong type raises ``TypeError``, a value out of range ``ValueError``; both name the argument and what was given. What
has passed can be encoded: a batch that is due never fails because of an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, Final, TypeAlias

from semel.types import INT32_MAX, INT64_MAX
from semel.wire.records import Headers

HeadersLike: TypeAlias = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]


TOPIC_LENGTH_MAX: Final = 249
"""Kafka's limit for the name of a topic. The broker checks which characters it has."""


def as_topic(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"topic is {_shown(given)}: the name of a topic is a str")
    if len(given) > TOPIC_LENGTH_MAX or not _is_encodable(given):
        raise ValueError(f"topic is {_shown(given)}: a name has {TOPIC_LENGTH_MAX} characters at most, all in UTF-8")
    return given


def as_bytes(name: str, given: Any) -> bytes | None:
    """Return a key or value as bytes. A bytes-like object is copied, because its owner could still change it."""
    if given is None or type(given) is bytes:
        return given
    try:
        # bytes(7) would be seven zeros; memoryview takes what holds bytes, and nothing else.
        return bytes(memoryview(given))
    except TypeError:
        raise TypeError(f"{name} is a {type(given).__name__}: key and value of a record are bytes or None") from None


def as_headers(given: HeadersLike) -> Headers:
    pairs = given.items() if isinstance(given, Mapping) else given
    headers: list[tuple[str, bytes | None]] = []
    try:
        for name, text in pairs:
            if not isinstance(name, str) or not _is_encodable(name):
                raise TypeError
            headers.append((name, text if text is None or type(text) is bytes else bytes(memoryview(text))))
    except (TypeError, ValueError):  # ValueError: not a pair.
        raise TypeError(
            f"headers is {_shown(given)}: headers are a dict, or pairs, of a str and bytes or None"
        ) from None
    return tuple(headers)


def as_partition_index(given: Any, name: str = "partition") -> int:
    number = _as_integer(name, given, "the number of a partition is an int")
    if not 0 <= number <= INT32_MAX:
        raise ValueError(f"{name} {number}: partitions are counted from 0, in 32 bits")
    return number


def as_offset(given: Any) -> int:
    number = _as_integer("offset", given, "it is an int")
    if not 0 <= number <= INT64_MAX:
        raise ValueError(f"offset {number}: offsets are counted from 0, in 64 bits")
    return number


def as_timestamp(given: Any, name: str = "timestamp") -> int:
    number = _as_integer(name, given, "it is an int, in milliseconds since 1970, such as int(time.time() * 1000)")
    if not 0 <= number <= INT64_MAX:
        raise ValueError(f"{name} {number}: it is counted in milliseconds since 1970, in 64 bits")
    return number


def as_max_records(given: Any) -> int:
    number = _as_integer("max_records", given, "it is an int, or None")
    if number < 1:
        raise ValueError(f"max_records {number}: it is 1 at least; None returns what max.poll.records allows")
    return number


def _as_integer(name: str, given: Any, rule: str) -> int:
    """Return an integer of any library, such as numpy's. A bool is refused: it was meant for another argument."""
    if not isinstance(given, bool):
        try:
            return index(given)
        except TypeError:
            pass
    raise TypeError(f"{name} is {_shown(given)}: {rule}")


def _is_encodable(text: str) -> bool:
    """Whether it can be written in UTF-8: half of a surrogate pair cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(given: Any) -> str:
    text = repr(given)
    return f"{text if len(text) <= 60 else f'{text[:57]}...'} of type {type(given).__name__}"
