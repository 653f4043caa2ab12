"""The hooks of a producer: serializers, ``on_send`` before a record is sent, ``on_acknowledgement`` for its outcome.

The order for a record: ``on_send``, then the serializers, then the partition is chosen, then the record is accepted. If
one of them raises, ``send`` raises that and accepts nothing. ``None`` is Kafka's null; serializers are not called for
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from semel.client.arguments import HeadersLike, as_headers
from semel.client.deliveries import Delivery
from semel.client.values import BulkMetadata, ProducerRecord, RecordMetadata
from semel.errors import StateError

log = logging.getLogger(__name__)

Serializer: TypeAlias = Callable[[Any], bytes | None]
"""Returns the bytes of a key or value."""

OnSend: TypeAlias = Callable[[ProducerRecord], ProducerRecord]
"""Returns the record that is to be sent instead of the given one; often the same."""

OnAcknowledgement: TypeAlias = Callable[[RecordMetadata | BulkMetadata | None, Exception | None], None]
"""Called with where a record, or a bulk of them, was written; or with the error."""


class SendManyArguments(NamedTuple):
    """The arguments of ``send_many``."""

    values: Iterable[Any]
    keys: Iterable[Any] | None = None
    partition: int | Sequence[int | None] | None = None
    headers: Sequence[HeadersLike] | None = None
    timestamps: int | Sequence[int | None] | None = None


@dataclass(frozen=True, slots=True)
class Hooks:
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    on_send: OnSend | None = None
    on_acknowledgement: OnAcknowledgement | None = None

    @property
    def change_records(self) -> bool:
        return self.on_send is not None or self.key_serializer is not None or self.value_serializer is not None

    def prepare(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as it is to be sent, in bytes."""
        if self.on_send is not None:
            record = self.on_send(record)
            if not isinstance(record, ProducerRecord):
                raise TypeError(f"on_send returns the record that is to be sent; it returned {type(record).__name__}")
        return record._replace(
            key=_serialized(self.key_serializer, record.key), value=_serialized(self.value_serializer, record.value)
        )

    def prepare_many(self, topic: str, lists: SendManyArguments) -> SendManyArguments:
        """Return lists as they are to be sent. They stay columns unless ``on_send`` has to see records."""
        if self.on_send is not None:
            lists = self._shown(topic, lists)
        values, keys = lists.values, lists.keys
        if self.value_serializer is not None:
            values = [_serialized(self.value_serializer, value) for value in values]
        if self.key_serializer is not None and keys is not None:
            keys = [_serialized(self.key_serializer, key) for key in keys]
        headers = None if lists.headers is None else [as_headers(one) if one else () for one in lists.headers]
        return lists._replace(values=values, keys=keys, headers=headers)

    def refuse_table(self) -> None:
        """Raise if there is ``on_send``: a table is sent as it is, and the hook would be skipped without notice."""
        if self.on_send is not None:
            raise StateError("send_arrow: this producer has on_send, which sees records and no tables: use send_many")

    def acknowledging(self, delivery: Delivery) -> Delivery:
        return delivery if self.on_acknowledgement is None else Acknowledging(delivery, self.on_acknowledgement)

    def _shown(self, topic: str, lists: SendManyArguments) -> SendManyArguments:
        assert self.on_send is not None
        values = list(lists.values)
        shown: list[ProducerRecord] = []
        for value, key, partition, headers, timestamp in zip(
            values,
            repeat(None, len(values)) if lists.keys is None else lists.keys,
            _for_each(lists.partition, len(values)),
            repeat((), len(values)) if lists.headers is None else lists.headers,
            _for_each(lists.timestamps, len(values)),
            strict=True,
        ):
            headers = as_headers(headers) if headers else ()
            record = self.on_send(ProducerRecord(topic, value, key, partition, headers, timestamp))
            if record.topic != topic:
                raise ValueError(f"on_send moved a record from {topic} to {record.topic}: send_many sends to one topic")
            shown.append(record)
        return SendManyArguments(
            values=[record.value for record in shown],
            keys=[record.key for record in shown],
            partition=[record.partition for record in shown],
            headers=[record.headers for record in shown],
            timestamps=[record.timestamp for record in shown],
        )


class Acknowledging:
    """A delivery that calls a hook first, also for a record whose future was cancelled."""

    __slots__ = ("_hook", "whole")

    def __init__(self, delivery: Delivery, hook: OnAcknowledgement) -> None:
        self.whole = delivery
        self._hook = hook

    def done(self) -> bool:
        return False  # It is settled once, with all others; a cancelled future changes nothing here.

    def set_result(self, result: Any, /) -> None:
        self._tell(result, None)
        if not self.whole.done():
            self.whole.set_result(result)

    def set_exception(self, exception: BaseException, /) -> None:
        self._tell(None, exception)
        if not self.whole.done():
            self.whole.set_exception(exception)

    def _tell(self, written: Any, error: Any) -> None:
        try:
            self._hook(written, error)
        except Exception:  # The caller has other records to settle.
            log.exception("on_acknowledgement raised")


def _serialized(serializer: Serializer | None, given: Any) -> Any:
    return given if serializer is None or given is None else serializer(given)


def _for_each(given: int | Sequence[int | None] | None, count: int) -> Iterable[int | None]:
    return repeat(given, count) if given is None or isinstance(given, int) else given
