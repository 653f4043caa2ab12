"""The way of a record from ``send`` to the machine, for callers that bring their own future.

The hooks are called first, then the arguments are checked. An error is raised here, and then nothing is accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from semel.client.arguments import HeadersLike, as_bytes, as_headers, as_partition_index, as_timestamp, as_topic
from semel.client.arrow_extra import arrow_module
from semel.client.config.producer import ProducerConfig
from semel.client.deliveries import BatchDelivery, BulkDelivery, Delivery
from semel.client.hooks import Acknowledging, Hooks, SendManyArguments
from semel.client.machine.producer.bulk import Bulk
from semel.client.machine.producer.producer import ProducerMachine
from semel.client.values import BulkMetadata, ProducerRecord
from semel.clock import Clock
from semel.types import INT64_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.client.tracing.spans import Spans


class SendQueue:
    """Prepares records and puts them into the machine.

    The caller holds the machine's guard while it puts something in, and wakes the driver afterwards.
    """

    def __init__(
        self,
        config: ProducerConfig,
        machine: ProducerMachine,
        clock: Clock,
        hooks: Hooks,
        spans: Spans | None = None,
    ) -> None:
        self._config = config
        self._machine = machine
        self._admission = machine.admission
        self._clock = clock
        self._hooks = hooks
        self._spans = spans
        self._has_hooks = hooks != Hooks() or spans is not None

    def put(
        self,
        delivery: Delivery,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp: int | None,
    ) -> bool:
        """Put in a record. Returns whether the driver must be woken."""
        if headers or self._has_hooks or (key is not None and type(key) is not bytes):
            if self._hooks.change_records:
                given = ProducerRecord(topic, value, key, partition, as_headers(headers) if headers else (), timestamp)
                topic, value, key, partition, headers, timestamp = self._hooks.prepare(given)
            if self._spans is not None:
                given = ProducerRecord(topic, value, key, partition, as_headers(headers) if headers else (), timestamp)
                return self._put_traced(delivery, given, self._spans)
            delivery = self._hooks.acknowledging(delivery)
            is_plain = False
        else:
            is_plain = type(value) is bytes
        if timestamp is None:
            timestamp = self._clock.now_ms()
        elif type(timestamp) is not int or not 0 <= timestamp <= INT64_MAX:
            timestamp = as_timestamp(timestamp)
        try:
            if is_plain and self._admission.add_to_open(topic, value, key, partition, timestamp, delivery):
                return False
        except TypeError:  # A topic that cannot be looked up.
            as_topic(topic)
            raise
        return self._machine.add(
            as_topic(topic),
            as_bytes("value", value),
            as_bytes("key", key),
            None if partition is None else as_partition_index(partition),
            as_headers(headers) if headers else (),
            timestamp,
            delivery,
            self._clock.monotonic_ms(),
        )

    def prepared(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: HeadersLike,
        timestamp: int | None,
    ) -> ProducerRecord:
        """Return a record after its hooks, in bytes and checked: ``put_prepared`` will not refuse its arguments."""
        record = ProducerRecord(topic, value, key, partition, as_headers(headers) if headers else (), timestamp)
        if self._hooks.change_records:
            record = self._hooks.prepare(record)
        if self._spans is not None:
            record = record._replace(headers=self._spans.injected(record.headers))
        return self.checked(record)

    def checked(self, record: ProducerRecord) -> ProducerRecord:
        """Return a record in bytes and checked, without calling hooks."""
        topic, value, key, partition, headers, timestamp = record
        checked = ProducerRecord(
            as_topic(topic),
            as_bytes("value", value),
            as_bytes("key", key),
            None if partition is None else as_partition_index(partition),
            as_headers(headers) if headers else (),
            self._clock.now_ms() if timestamp is None else as_timestamp(timestamp),
        )
        self._admission.checked_size(checked.topic, checked.value, checked.key, checked.headers)
        return checked

    def put_prepared(self, delivery: Delivery, record: ProducerRecord) -> bool:
        """Put in a record that was prepared or checked. Returns whether the driver must be woken."""
        if self._spans is None:
            return self._add(delivery, record)
        span = self._spans.begin_send(record.topic, is_tombstone=record.value is None)
        with span.ended_by_error():
            return self._add(Acknowledging(delivery, span.told), record)

    def _put_traced(self, delivery: Delivery, record: ProducerRecord, spans: Spans) -> bool:
        """Check a record and put it in, with the context of its own span in its headers."""
        span = spans.begin_send(as_topic(record.topic), is_tombstone=record.value is None)
        with span.ended_by_error():
            record = self.checked(record._replace(headers=span.injected(record.headers)))
            return self._add(Acknowledging(delivery, span.told), record)

    def _add(self, delivery: Delivery, record: ProducerRecord) -> bool:
        assert record.timestamp is not None, "it was checked"
        return self._machine.add(
            record.topic,
            record.value,
            record.key,
            record.partition,
            record.headers,
            record.timestamp,
            self._hooks.acknowledging(delivery),
            self._clock.monotonic_ms(),
        )

    def put_batch(self, delivery: Delivery, topic: str, partition: int, records: bytes, record_count: int) -> None:
        """Put in a batch that was encoded elsewhere, with offsets from 0 and without producer id and sequence."""
        told = BatchDelivery(delivery, record_count)
        self._machine.add_batch(topic, partition, records, record_count, told, self._clock.monotonic_ms())

    def put_bulk(self, delivery: Delivery, bulk: Bulk) -> None:
        """Put in a bulk, made by ``bulk_of_lists`` or ``bulk_of_table``."""
        if not bulk.record_count:
            delivery.set_result(BulkMetadata(bulk.topic, 0, {}))
            return
        delivery = self._hooks.acknowledging(delivery)
        if self._spans is None:
            self._add_bulk(delivery, bulk)
            return
        span = self._spans.begin_send(bulk.topic, record_count=bulk.record_count)
        with span.ended_by_error():
            self._add_bulk(Acknowledging(delivery, span.told), bulk)

    def _add_bulk(self, delivery: Delivery, bulk: Bulk) -> None:
        told = BulkDelivery(delivery, bulk.topic, bulk.record_count)
        self._machine.add_bulk(bulk, told, self._clock.monotonic_ms())

    def bulk_of_lists(self, topic: str, lists: SendManyArguments, call: str) -> Bulk:
        """Return what ``send_many`` sends. This takes its time, so the guard must not be held."""
        module = arrow_module("bulk", call)
        now_ms = self._clock.now_ms()
        lists = self._hooks.prepare_many(as_topic(topic), lists)
        if self._spans is not None:
            lists = self._with_context(lists, self._spans)
        rows = module.rows_of_lists(*lists, now_ms)
        bulk: Bulk = module.ArrowBulk(topic, rows, self._config)
        return bulk

    def _with_context(self, lists: SendManyArguments, spans: Spans) -> SendManyArguments:
        """Add the current tracing context to all records: a span for each would cost more than everything else."""
        context = spans.injected(())
        if not context:
            return lists
        values = list(lists.values)
        if lists.headers is None:
            return lists._replace(values=values, headers=[context] * len(values))
        return lists._replace(values=values, headers=[spans.injected(as_headers(one)) for one in lists.headers])

    def bulk_of_table(self, topic: str, table: pa.Table | pa.RecordBatch, call: str) -> Bulk:
        """Return what ``send_arrow`` sends. This takes its time, so the guard must not be held."""
        module = arrow_module("bulk", call)
        self._hooks.refuse_table()
        bulk: Bulk = module.ArrowBulk(as_topic(topic), module.as_rows(table, self._clock.now_ms()), self._config)
        return bulk
