"""From a record to its batch: its partition is chosen; it waits while its topic is unknown or there is no room.

    add -> (no room, topic unknown: the buffer queue) -> the batch of its partition

The law: every record that was accepted gets into a batch, in the order of the calls for each partition, or is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NoReturn

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.cluster_view import ClusterView, TopicView
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.accumulator import Accumulator
from semel.client.machine.producer.batch import Delivery, Flush, Settlement
from semel.client.machine.producer.buffer_queue import BufferQueue, Waiting, WaitingRecord
from semel.client.machine.producer.bulk import Bulk, WaitingBulk
from semel.client.machine.producer.murmur2 import positive_murmur2
from semel.client.machine.producer.partition_queue import PartitionQueue
from semel.client.machine.producer.partitioner import Partitioning
from semel.errors import AbortableError, ErrorCode, Family, StateError, TimedOut, client_error, family_of
from semel.types import TopicPartition
from semel.wire.records import HEADER_SIZE, Headers

# A record's own lengths and deltas take this much at most.
RECORD_OVERHEAD_BYTES: Final = 26
HEADER_OVERHEAD_BYTES: Final = 10

# How much of a bulk is encoded at once, while the piece before it is being sent.
_BULK_PIECE_BYTES: Final = 2 * 2**20


class Admission:
    """Puts records into batches. ``refused`` is called with records that were accepted and will be in no batch."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioning: Partitioning,
        metadata: Metadata,
        accumulator: Accumulator,
        *,
        refused: Callable[[Settlement], None],
    ) -> None:
        self._partitioning = partitioning
        self._metadata = metadata
        self._metadata_seen = 0
        self._accumulator = accumulator
        self._refused = refused
        self._room = BufferQueue(config.buffer_memory)
        self._asked_topics: dict[str, Promise[TopicView]] = {}
        self._known_view: ClusterView | None = None
        self._known_queues: dict[str, list[PartitionQueue]] = {}
        """The queues of topics whose partitions ``_known_view`` has: ``add_to_open`` looks them up for every record."""
        self._max_block_ms = config.max_block_ms
        self._max_request_size = config.max_request_size
        self._record_size_max = config.max_request_size - HEADER_SIZE
        self.buffer_memory = config.buffer_memory
        self.is_open_to_all = True
        """Whether records may be added without a check of the producer's state first."""

    # Records

    def add(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: Headers,
        timestamp: int,
        delivery: Delivery,
        now_ms: float,
    ) -> bool:
        """Accept a record. Returns whether there is something new to do.

        Raises, and accepts nothing, if the record is larger than a request may be.
        """
        size_bytes = self.checked_size(topic, value, key, headers)
        accumulator = self._accumulator
        if self._room.is_empty and accumulator.buffered_bytes < self.buffer_memory:
            queue = self._queue_for(topic, key, value, partition, size_bytes)
            if queue is not None:
                if not accumulator.append(queue, timestamp, key, value, headers, delivery, now_ms):
                    return False
                self._metadata.want(topic, now_ms)
                return True
        deadline_ms = now_ms + self._max_block_ms
        known_by = self._metadata.next_update
        record = WaitingRecord(
            topic, value, key, partition, headers, timestamp, delivery, size_bytes, deadline_ms, known_by
        )
        if self._room.has_line or self.used_bytes >= self.buffer_memory:
            self._room.wait_for_room(record)
        else:
            self._place(record, now_ms)
        return True

    def checked_size(self, topic: str, value: bytes | None, key: bytes | None, headers: Headers) -> int:
        """Return how many bytes a record takes at most. Raises if that is more than a request may have."""
        size_bytes = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size_bytes += sum(HEADER_OVERHEAD_BYTES + 3 * len(name) + len(text or b"") for name, text in headers)
        if size_bytes > self._record_size_max:
            self._raise_too_large(f"a record of {size_bytes} bytes for {topic} was not sent")
        return size_bytes

    def add_to_open(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int | None,
        timestamp: int,
        delivery: Delivery,
    ) -> bool:
        """Accept a record if that only adds it to an open batch, as for nearly all records; else return ``False``.

        A record for which this returns ``False`` was not accepted: call ``add``. This runs for every record, so it
        makes no call that it can avoid.
        """
        accumulator = self._accumulator
        if (
            self._known_view is not self._metadata.view
            or accumulator.buffered_bytes >= self.buffer_memory
            or not self._room.is_empty
            or not self.is_open_to_all
        ):
            return False
        queues = self._known_queues.get(topic)
        if queues is None:
            return False
        sticky = None
        if partition is None:
            if key is not None and self._partitioning.hashes_keys:
                partition = positive_murmur2(key) % len(queues)
            else:
                sticky = self._partitioning.staying(topic)
                partition = None if sticky is None else sticky.partition
        elif type(partition) is not int:
            return False
        if partition is None or not 0 <= partition < len(queues):
            return False
        batch = queues[partition].open
        if batch is None:
            return False
        builder = batch.builder
        assert builder is not None
        if not builder.append(timestamp, key, value):
            return False
        batch.deliveries.append(delivery)
        batch.timestamps.append(timestamp)
        size_bytes = builder.size_bytes
        accumulator.buffered_bytes += size_bytes - batch.size_bytes
        batch.size_bytes = size_bytes
        if sticky is not None:
            sticky.room_bytes -= RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + len(value)
        return True

    def add_batch(
        self, topic: str, partition: int, records: bytes, record_count: int, delivery: Delivery, now_ms: float
    ) -> None:
        """Accept a batch that was encoded elsewhere, for a partition that is known (``know_topic``).

        It does not wait for room: a caller that sends batches must limit the unsettled bytes itself.
        """
        queue = self._queue_for(topic, None, None, partition, len(records))
        if queue is None:
            raise StateError(f"send_batch: partition {partition} of {topic} is not known")
        self._accumulator.append_built(queue, records, record_count, delivery, now_ms)
        self._metadata.want(topic, now_ms)

    def add_bulk(self, bulk: Bulk, delivery: Delivery, now_ms: float) -> None:
        """Accept many records of a topic. They wait in the same queue as single records, and leave it piece by piece.

        Raises, and accepts nothing, as ``add`` does; one record that is too large is enough.
        """
        row, size_bytes = bulk.largest()
        if size_bytes > self._record_size_max:
            self._raise_too_large(
                f"{bulk.record_count} records for {bulk.topic} were not sent: row {row} takes {size_bytes} bytes"
            )
        deadline_ms = now_ms + self._max_block_ms
        self._room.wait_for_room(
            WaitingBulk(
                bulk.topic,
                bulk,
                delivery,
                bulk.size_bytes,
                deadline_ms,
                bulk.record_count,
                self._metadata.next_update,
            )
        )

    @property
    def has_line(self) -> bool:
        """Whether records wait for room in the buffer, so that the caller should slow down."""
        return self._room.has_line

    @property
    def is_empty(self) -> bool:
        """Whether no record waits for room or for its topic."""
        return self._room.is_empty

    @property
    def used_bytes(self) -> int:
        """How many bytes of the buffer are in use."""
        return self._accumulator.buffered_bytes + self._room.reserved_bytes

    def join(self, flush: Flush) -> None:
        """Make a flush wait for the records that wait here, too."""
        for record in self._room.records():
            flush.wait_for_one_more()
            record.flushes.append(flush)

    def waiting_deliveries(self) -> list[Delivery]:
        """Return the deliveries of all records that were accepted and are in no batch yet."""
        return [waiting.delivery for waiting in self._room.unplaced]

    def give_up(self, error: Exception) -> None:
        """Refuse all records that wait for room or for a topic."""
        for record, _ in self._room.take_all():
            self._refuse(record, error)

    # Topics

    def know_topic(self, topic: str, now_ms: float) -> Promise[TopicView]:
        """Return a promise for the metadata of a topic."""
        promise = self._asked_topics.get(topic)
        if promise is None:
            promise = Promise()
            view = self._metadata.view.topics.get(topic)
            self._metadata.want(topic, now_ms)
            if view is not None and view.partitions:
                promise.fulfil(view)
            else:
                self._asked_topics[topic] = promise
        return promise

    def is_missing(self, topic: str) -> bool:
        """Whether the last metadata says that the topic does not exist."""
        view = self._metadata.view.topics.get(topic)
        return view is not None and view.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def fail_topics(self, error: Exception) -> None:
        """Fail all promises of ``know_topic``."""
        for promise in self._asked_topics.values():
            promise.fail(error)
        self._asked_topics.clear()

    # Turns

    def poll(self, now_ms: float) -> None:
        self._look_at_metadata(now_ms)
        self._place_waiting(now_ms)
        if self._room.topics:
            # A record that left the queue may need a topic that has not been asked for yet.
            self._metadata.poll(now_ms)

    def poll_again(self, now_ms: float) -> None:
        """Use the room that was made by sending or failing batches. The rest of a bulk is left for the next poll."""
        if self._room.has_line and not self._room.begins_with_bulk:
            self._place_waiting(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        return now_ms if self._may_place_bulk else self._room.next_deadline_ms()

    @property
    def _may_place_bulk(self) -> bool:
        """Whether there is room for more of a bulk.

        It waits for the next poll, so that this one's requests leave first.
        """
        return self._room.begins_with_bulk and self.used_bytes < self.buffer_memory

    def _look_at_metadata(self, now_ms: float) -> None:
        """After a Metadata response, place the records that waited for a topic, or fail them if it was refused."""
        if self._metadata_seen == self._metadata.updates:
            return
        self._metadata_seen = self._metadata.updates
        for topic in dict.fromkeys((*self._room.topics, *self._asked_topics)):
            view = self._metadata.view.topics.get(topic)
            if view is None:
                continue
            if view.error != ErrorCode.NONE and family_of(view.error) is not Family.RETRIABLE:
                self._refuse_topic(topic, view.error)
            elif view.partitions:
                waiting = deque(self._room.take_topic(topic))
                while waiting and isinstance(waiting[0], WaitingRecord):
                    self._place(waiting.popleft(), now_ms)
                self._room.go_first(waiting)  # A bulk needs more room than it has had; records behind it stay behind.
                promise = self._asked_topics.pop(topic, None)
                if promise is not None:
                    promise.fulfil(view)

    def _place_waiting(self, now_ms: float) -> None:
        for record, waited_for in self._room.take_expired(now_ms):
            self._refuse(record, self._waited_too_long(record, waited_for))
        while self._room.has_line and self.used_bytes < self.buffer_memory:
            first = self._room.next_in_line()
            self._place(first, now_ms)
            if isinstance(first, WaitingBulk) and first.is_spread and first.records_left:
                self._room.go_first(deque([first]))
                break

    # Placing

    def _queue_for(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, size_bytes: int
    ) -> PartitionQueue | None:
        """Return the queue that a record belongs to; ``None`` if its topic or its partition is not known yet."""
        view = self._metadata.view.topics.get(topic)
        if view is None or not view.partitions:
            return None
        count = len(view.partitions)
        if partition is None:
            partition = self._partitioning.choose(view, key, value, size_bytes)
        elif not 0 <= partition < count:
            self._metadata.outdated()
            return None
        queues = self._accumulator.queues(topic, count)
        if self._known_view is not self._metadata.view:
            self._known_view = self._metadata.view
            self._known_queues.clear()
        self._known_queues[topic] = queues[:count]
        return queues[partition]

    def _place(self, record: Waiting, now_ms: float) -> None:
        self._metadata.want(record.topic, now_ms)
        if isinstance(record, WaitingBulk):
            self._place_bulk(record, now_ms)
            return
        queue = None
        try:
            if not self._room.awaits(record.topic):
                queue = self._queue_for(record.topic, record.key, record.value, record.partition, record.size_bytes)
        except Exception as error:  # The partitioner is user code, and the caller of send has returned.
            self._refuse(record, error)
            return
        if queue is None:
            if record.partition is None or not self._is_absent(record, record.partition):
                self._room.wait_for_topic(record)
            return
        self._accumulator.append(
            queue, record.timestamp, record.key, record.value, record.headers, record.delivery, now_ms
        )
        batch = queue.waiting[-1]
        for flush in record.flushes:
            if flush in batch.flushes:
                flush.one_is_settled()
            else:
                batch.flushes.append(flush)
        self._room.unplaced.pop(record, None)

    def _place_bulk(self, waiting: WaitingBulk, now_ms: float) -> None:
        """Put the next piece of a bulk into its partitions' queues."""
        try:
            if not waiting.is_spread:
                view = self._metadata.view.topics.get(waiting.topic)
                if view is None or not view.partitions or self._room.awaits(waiting.topic):
                    self._room.wait_for_topic(waiting)
                    return
                missing = waiting.bulk.spread(view, self._partitioning)
                if missing is not None:
                    if not self._is_absent(waiting, missing):
                        self._metadata.outdated()
                        self._room.wait_for_topic(waiting)
                    return
                waiting.is_spread = True
                self._accumulator.queues(waiting.topic, len(view.partitions))
            batches = waiting.bulk.take(_BULK_PIECE_BYTES)
        except Exception as error:  # The partitioner and the columns are the application's.
            self._refuse(waiting, error)
            waiting.records_left = 0
            return
        for partition, records, count in batches:
            queue = self._accumulator.queue(TopicPartition(waiting.topic, partition))
            batch = self._accumulator.append_built(queue, records, count, waiting.delivery, now_ms)
            waiting.records_left -= count
            for flush in waiting.flushes:
                flush.wait_for_one_more()
                batch.flushes.append(flush)
        if not waiting.records_left:
            for flush in waiting.flushes:
                flush.one_is_settled()
            self._room.unplaced.pop(waiting, None)

    # Refusing

    def _is_absent(self, waiting: Waiting, partition: int) -> bool:
        """Refuse a record if newer metadata shows that its partition does not exist. Returns whether it was refused."""
        view = self._metadata.view.topics.get(waiting.topic)
        count = 0 if view is None else len(view.partitions)
        if not count or partition < count or self._metadata.updates < waiting.known_by:
            return False
        what = "a record was"
        if isinstance(waiting, WaitingBulk):
            what = f"{waiting.records_left} records were"
        text = f"{what} not sent: {waiting.topic} has no partition {partition}; it has {count}, counted from 0"
        self._refuse(waiting, AbortableError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
        if isinstance(waiting, WaitingBulk):
            waiting.records_left = 0
        return True

    def _refuse_topic(self, topic: str, code: ErrorCode) -> None:
        error = client_error(code, f"topic {topic!r} cannot be written to: the broker answered {code.name}")
        for record in self._room.take_topic(topic):
            self._refuse(record, error)
        promise = self._asked_topics.pop(topic, None)
        if promise is not None:
            promise.fail(error)
        self._metadata.forget(topic)

    def _refuse(self, record: Waiting, error: Exception) -> None:
        if isinstance(record, WaitingBulk):
            partition, timestamps, bulk_count = None, [0], record.records_left
        else:
            partition, timestamps, bulk_count = record.partition, [record.timestamp], None
        self._refused(Settlement(record.topic, partition, [record.delivery], timestamps, error, bulk_count))
        self._room.unplaced.pop(record, None)
        for flush in record.flushes:
            flush.one_is_settled()

    def _waited_too_long(self, record: Waiting, waited_for: str) -> TimedOut:
        view = self._metadata.view.topics.get(record.topic)
        answer = f"; the broker answered {view.error.name}" if view is not None and view.error else ""
        what = f"a record for {record.topic} was"
        if isinstance(record, WaitingBulk):
            what = f"the last {record.records_left} of {record.bulk.record_count} records for {record.topic} were"
        return TimedOut(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{what} not sent: waited for {waited_for} longer than max.block.ms ({self._max_block_ms} ms){answer}",
        )

    def _raise_too_large(self, what: str) -> NoReturn:
        raise AbortableError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{what}: max.request.size is {self._max_request_size}. Raise it, or send less; the producer can go on",
        )
