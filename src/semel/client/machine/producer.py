"""A producer's decisions, put together: a record comes in, finds its partition, its batch, its broker, and is settled.

    add -> waiting room (no room, topic unknown) -> accumulator (batches) -> sender (requests) -> settled

The law: every record that ``add`` took is settled exactly once, with where it was written or with why it was not.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

from semel.client.machine.accumulator import Accumulator
from semel.client.machine.actions import Action
from semel.client.machine.batch import Delivery, Settlement
from semel.client.machine.bulk import Bulk, WaitingBulk
from semel.client.machine.cluster_view import ClusterView, TopicView
from semel.client.machine.connected import ConnectedMachine
from semel.client.machine.connections import DATA, Connections
from semel.client.machine.coordination import Coordination
from semel.client.machine.coordinators import Coordinators
from semel.client.machine.metadata import Metadata
from semel.client.machine.murmur2 import positive_murmur2
from semel.client.machine.partition_queue import PartitionQueue
from semel.client.machine.partitioner import Partitioner, Partitioning
from semel.client.machine.producer_id import ProducerId
from semel.client.machine.promise import Promise
from semel.client.machine.sender import Sender
from semel.client.machine.sequences import Numbering
from semel.client.machine.transaction import Transaction
from semel.client.machine.waiting_room import Waiting, WaitingRecord, WaitingRoom
from semel.client.producer_config import ProducerConfig
from semel.errors import (
    AbortableError,
    AuthorizationFailed,
    ErrorCode,
    Family,
    FatalError,
    KafkaError,
    StateError,
    TimedOut,
    UnsupportedVersion,
    client_error,
    family_of,
)
from semel.types import TopicPartition
from semel.wire.records import HEADER_SIZE, Headers

_NEVER: Final = float("inf")

# A record's own lengths and deltas take this much at most.
RECORD_OVERHEAD_BYTES: Final = 26
HEADER_OVERHEAD_BYTES: Final = 10

# So much of a bulk is encoded at once: what was encoded before travels meanwhile.
_BULK_PIECE_BYTES: Final = 2 * 2**20


class ProducerMachine(ConnectedMachine):
    def __init__(
        self,
        config: ProducerConfig,
        random: Random,
        *,
        partitioner: Partitioner | None = None,
        software_version: str = "0",
    ) -> None:
        super().__init__(
            Connections(
                config.client,
                random,
                in_flight_max=config.max_in_flight_requests_per_connection,
                software_version=software_version,
            )
        )
        self._config = config
        self._partitioning = Partitioning(config, random, partitioner)
        self._metadata = Metadata(
            config.client, self._connections, random, lane=DATA, idle_ms=config.metadata_max_idle_ms
        )
        self._metadata_seen = 0
        self._accumulator = Accumulator(config)
        self._room = WaitingRoom(config.buffer_memory)
        self._asked_topics: dict[str, Promise[TopicView]] = {}
        self._known_view: ClusterView | None = None
        self._known_queues: dict[str, list[PartitionQueue]] = {}
        """The queues of topics whose partitions that view knows: what ``add_to_open`` looks up for every record."""
        self._buffer_memory = config.buffer_memory
        self._record_size_max = config.max_request_size - HEADER_SIZE
        self._closing = self._refuses = False
        self.error: KafkaError | None = None
        self.transaction: Transaction | None = None
        self._producer_id: ProducerId | None = None
        numbering: Numbering | None = None
        if config.transactional_id is not None:
            numbering = self.transaction = Transaction(
                config.transactional_id, features=lambda: self._connections.features
            )
            self._coordinators = Coordinators(
                config.client,
                self._connections,
                self._metadata,
                random,
                lane=DATA,
                refused=lambda key, error: self._coordination.refused(key, error),
            )
            self._coordination = Coordination(config, self.transaction, self._connections, self._coordinators, random)
        elif config.enable_idempotence:
            numbering = self._producer_id = ProducerId(config.client, self._connections, random, fatal=self._fatal)
        self._sender = Sender(config, self._accumulator, self._metadata, self._connections, random, numbering)

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
        """Take a record. Says whether ``poll`` has something new to do.

        Raises, and takes nothing, if this producer may not send now or the record is larger than a request may be.
        """
        if self.transaction is not None:
            self.transaction.check_may_send()
        if self._refuses:
            self._raise_why_not()
        size_bytes = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size_bytes += sum(HEADER_OVERHEAD_BYTES + 3 * len(name) + len(text or b"") for name, text in headers)
        if size_bytes > self._record_size_max:
            self._raise_too_large(f"a record of {size_bytes} bytes for {topic} was not sent")
        accumulator = self._accumulator
        if self._room.is_empty and accumulator.buffered_bytes < self._buffer_memory:
            queue = self._queue_for(topic, key, value, partition, size_bytes)
            if queue is not None:
                if not accumulator.append(queue, timestamp, key, value, headers, delivery, now_ms):
                    return False
                self._metadata.want(topic, now_ms)
                return True
        # What has to wait is copied, if its owner could still change it.
        copied = value if value is None or type(value) is bytes else bytes(memoryview(value))
        deadline_ms = now_ms + self._config.max_block_ms
        record = WaitingRecord(topic, copied, key, partition, headers, timestamp, delivery, size_bytes, deadline_ms)
        if self._room.has_line or self._used_bytes >= self._buffer_memory:
            self._room.wait_for_room(record)
        else:
            self._place(record, now_ms)
        return True

    def add_to_open(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int | None,
        timestamp: int,
        delivery: Delivery,
    ) -> bool:
        """Take a record if that makes one more in an open batch and changes nothing else, as for nearly all it does.

        ``False``: it was not taken, and is for ``add``. There is little in here, and no call that can be done without.
        """
        accumulator = self._accumulator
        if (
            self._known_view is not self._metadata.view
            or accumulator.buffered_bytes >= self._buffer_memory
            or not self._room.is_empty
            or self._refuses
            or self.transaction is not None
        ):
            return False
        queues = self._known_queues.get(topic)
        if queues is None:
            return False
        if partition is None:
            if key is None or not self._partitioning.hashes_keys:
                return False
            partition = positive_murmur2(key) % len(queues)
        elif not 0 <= partition < len(queues):
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
        return True

    def add_batch(
        self, topic: str, partition: int, records: bytes, record_count: int, delivery: Delivery, now_ms: float
    ) -> None:
        """Take a whole batch, encoded elsewhere, for a partition that is known (``know_topic``).

        It waits for no room: who sends batches counts the bytes that are unsettled.
        """
        if self.transaction is not None:
            self.transaction.check_may_send()
        if self._refuses:
            self._raise_why_not()
        queue = self._queue_for(topic, None, None, partition, len(records))
        if queue is None:
            raise StateError(f"send_batch: partition {partition} of {topic} is not known")
        self._accumulator.append_built(queue, records, record_count, delivery, now_ms)
        self._metadata.want(topic, now_ms)

    def add_bulk(self, bulk: Bulk, delivery: Delivery, now_ms: float) -> None:
        """Take many records of a topic. They wait in line with single ones, and leave piece by piece.

        Raises, and takes nothing, as ``add`` does; one record that is too large is enough.
        """
        if self.transaction is not None:
            self.transaction.check_may_send()
        if self._refuses:
            self._raise_why_not()
        row, size_bytes = bulk.largest()
        if size_bytes > self._record_size_max:
            self._raise_too_large(
                f"{bulk.record_count} records for {bulk.topic} were not sent: row {row} takes {size_bytes} bytes"
            )
        deadline_ms = now_ms + self._config.max_block_ms
        self._room.wait_for_room(
            WaitingBulk(bulk.topic, bulk, delivery, bulk.size_bytes, deadline_ms, bulk.record_count)
        )

    @property
    def is_full(self) -> bool:
        """Whether records wait for room: time to slow down."""
        return self._room.has_line

    @property
    def is_idle(self) -> bool:
        """Whether every record is settled."""
        return not self._accumulator.active and self._room.is_empty

    def flush(self) -> Promise[None]:
        """Send everything now, without lingering; kept when all that was added before is settled."""
        flush = self._accumulator.flush()
        for record in self._room.records():
            flush.wait_for_one_more()
            record.flushes.append(flush)
        flush.one_is_settled()
        return flush.promise

    def know_topic(self, topic: str, now_ms: float) -> Promise[TopicView]:
        """The topic, once it is known."""
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

    def take_settled(self) -> list[Settlement]:
        settled, self._sender.settled = self._sender.settled, []
        return settled

    def close(self) -> None:
        """Take no more records; what is there leaves without lingering."""
        self._closing = self._refuses = True

    def shut(self, now_ms: float) -> None:
        """Give up what is left, and every connection."""
        self._closing = self._refuses = True
        closed = AbortableError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before this was acknowledged")
        self._give_up(closed, also_on_wire=True)
        if self.transaction is not None:
            self.transaction.fatal(FatalError(closed.code, "the producer is closed"))
        self._connections.close("the producer was closed", now_ms)

    def metrics(self) -> dict[str, float]:
        return {
            **self._connections.metrics(),
            "record-send-total": self._sender.records_acknowledged,
            "record-error-total": self._sender.records_failed,
            "buffer-total-bytes": self._buffer_memory,
            "buffer-available-bytes": max(0, self._buffer_memory - self._used_bytes),
        }

    @property
    def waiting_for(self) -> str:
        """What keeps this producer from going on, for a person."""
        if self.transaction is not None and self._coordination.waiting_for is not None:
            return self._coordination.waiting_for
        return "records to be acknowledged" if not self.is_idle else "the brokers"

    # What the driver calls

    def poll(self, now_ms: float) -> list[Action]:
        try:
            self._poll(now_ms)
        except (AuthorizationFailed, UnsupportedVersion) as error:
            self._fatal(error)
        urgent = self._is_urgent
        self._deadline_ms = min(
            self._connections.next_deadline_ms(now_ms),
            self._metadata.next_deadline_ms(now_ms),
            now_ms if self._may_pour else self._room.next_deadline_ms(),
            self._sender.next_deadline_ms(now_ms, urgent=urgent),
            _NEVER if self._producer_id is None else self._producer_id.next_deadline_ms(now_ms),
            _NEVER if self.transaction is None else self._coordination.next_deadline_ms(now_ms),
            _NEVER if self.transaction is None else self._coordinators.next_deadline_ms(now_ms),
        )
        return self._connections.take_actions()

    # Inside

    def _poll(self, now_ms: float) -> None:
        self._connections.poll(now_ms)
        self._metadata.poll(now_ms)
        if self._producer_id is not None:
            self._producer_id.poll(now_ms)
        self._look_at_metadata(now_ms)
        self._leave_room(now_ms)
        if self._room.topics:
            self._metadata.poll(now_ms)  # Who left the line may have found a topic that nobody has asked for yet.
        if self.transaction is not None and self.transaction.drops_batches:
            self._give_up(self.transaction.error or _aborted())
        self._sender.poll(now_ms, urgent=self._is_urgent)
        if self._room.has_line and not self._room.begins_with_bulk:
            self._leave_room(now_ms)
        if self.transaction is not None:
            self._coordination.poll(now_ms, is_settled=self.is_idle)
            if self.transaction.error is not None and isinstance(self.transaction.error, FatalError):
                self._fatal(self.transaction.error)

    @property
    def _is_urgent(self) -> bool:
        committing = self.transaction is not None and self.transaction.is_ending
        return committing or self._closing or self._room.has_line

    @property
    def _may_pour(self) -> bool:
        """Whether more of a bulk would find room. It is left for the next poll, so that this one's requests leave."""
        return self._room.begins_with_bulk and self._used_bytes < self._buffer_memory

    @property
    def _used_bytes(self) -> int:
        return self._accumulator.buffered_bytes + self._room.reserved_bytes

    def _queue_for(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, size_bytes: int
    ) -> PartitionQueue | None:
        """The queue that a record belongs to; ``None`` if its topic or its partition is not known yet."""
        view = self._metadata.view.topics.get(topic)
        if view is None or not view.partitions:
            return None
        count = len(view.partitions)
        if partition is None:
            partition = self._partitioning.choose(view, key, value, size_bytes)
        elif not 0 <= partition < count:
            if partition < 0:
                raise ValueError(f"partition {partition} of {topic}: partitions are counted from 0")
            self._metadata.outdated()
            return None
        queues = self._accumulator.queues(topic, count)
        if self._known_view is not self._metadata.view:
            self._known_view = self._metadata.view
            self._known_queues.clear()
        self._known_queues[topic] = queues[:count]
        return queues[partition]

    def _look_at_metadata(self, now_ms: float) -> None:
        """After an answer: place those who waited for a topic, or tell them that it will not come."""
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
                self._room.go_first(waiting)  # A bulk needs more room than it has had, and who is behind it stays so.
                promise = self._asked_topics.pop(topic, None)
                if promise is not None:
                    promise.fulfil(view)

    def _refuse_topic(self, topic: str, code: ErrorCode) -> None:
        error = client_error(code, f"topic {topic!r} cannot be written to: the broker answered {code.name}")
        for record in self._room.take_topic(topic):
            self._refuse(record, error)
        promise = self._asked_topics.pop(topic, None)
        if promise is not None:
            promise.fail(error)
        self._metadata.forget(topic)

    def _leave_room(self, now_ms: float) -> None:
        for record, waited_for in self._room.take_expired(now_ms):
            self._refuse(record, self._waited_too_long(record, waited_for))
        while self._room.has_line and self._used_bytes < self._buffer_memory:
            first = self._room.next_in_line()
            self._place(first, now_ms)
            if isinstance(first, WaitingBulk) and first.is_spread and first.records_left:
                self._room.go_first(deque([first]))
                break

    def _place(self, record: Waiting, now_ms: float) -> None:
        self._metadata.want(record.topic, now_ms)
        if isinstance(record, WaitingBulk):
            self._pour(record, now_ms)
            return
        queue = None
        try:
            if not self._room.awaits(record.topic):
                queue = self._queue_for(record.topic, record.key, record.value, record.partition, record.size_bytes)
        except Exception as error:  # The partitioner is somebody else's code, and its caller has long gone on.
            self._refuse(record, error)
            return
        if queue is None:
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

    def _pour(self, waiting: WaitingBulk, now_ms: float) -> None:
        """Put the next piece of a bulk into its partitions' queues."""
        try:
            if not waiting.is_spread:
                view = self._metadata.view.topics.get(waiting.topic)
                is_known = view is not None and view.partitions and not self._room.awaits(waiting.topic)
                if view is None or not is_known or not waiting.bulk.spread(view, self._partitioning):
                    if is_known:
                        self._metadata.outdated()
                    self._room.wait_for_topic(waiting)
                    return
                waiting.is_spread = True
                self._accumulator.queues(waiting.topic, len(view.partitions))
            pieces = waiting.bulk.take(_BULK_PIECE_BYTES)
        except Exception as error:  # As above: the partitioner, and the columns, are somebody else's.
            self._refuse(waiting, error)
            waiting.records_left = 0
            return
        for partition, records, count in pieces:
            queue = self._accumulator.queue(TopicPartition(waiting.topic, partition))
            batch = self._accumulator.append_built(queue, records, count, waiting.delivery, now_ms)
            waiting.records_left -= count
            for flush in waiting.flushes:
                flush.wait_for_one_more()
                batch.flushes.append(flush)
        if not waiting.records_left:
            for flush in waiting.flushes:
                flush.one_is_settled()

    def _refuse(self, record: Waiting, error: Exception) -> None:
        if isinstance(record, WaitingBulk):
            count, partition, timestamps, bulk_count = record.records_left, None, [0], record.records_left
        else:
            count, partition, timestamps, bulk_count = 1, record.partition, [record.timestamp], None
        self._sender.records_failed += count
        self._sender.settled.append(
            Settlement(record.topic, partition, [record.delivery], timestamps, error, bulk_count)
        )
        for flush in record.flushes:
            flush.one_is_settled()
        if self.transaction is not None:
            failure = error if isinstance(error, KafkaError) else AbortableError(ErrorCode.INVALID_RECORD, str(error))
            self.transaction.failed(failure, was_numbered=False)

    def _waited_too_long(self, record: Waiting, waited_for: str) -> TimedOut:
        view = self._metadata.view.topics.get(record.topic)
        answer = f"; the broker answered {view.error.name}" if view is not None and view.error else ""
        what = f"a record for {record.topic} was"
        if isinstance(record, WaitingBulk):
            what = f"the last {record.records_left} of {record.bulk.record_count} records for {record.topic} were"
        return TimedOut(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{what} not sent: waited for {waited_for} longer than max.block.ms "
            f"({self._config.max_block_ms} ms){answer}",
        )

    def _give_up(self, error: Exception, *, also_on_wire: bool = False) -> None:
        for record, _ in self._room.take_all():
            self._refuse(record, error)
        self._sender.give_up(error, also_on_wire=also_on_wire)

    def _fatal(self, error: Exception) -> None:
        if self.error is not None:
            return
        assert isinstance(error, KafkaError)
        self.error = error
        self._refuses = True
        if self.transaction is not None:
            self.transaction.fatal(error)
        for promise in self._asked_topics.values():
            promise.fail(error)
        self._asked_topics.clear()
        self._give_up(error, also_on_wire=True)

    def _raise_too_large(self, what: str) -> None:
        raise AbortableError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{what}: max.request.size is {self._config.max_request_size}. Raise it, or send less; the producer can go "
            "on",
        )

    def _raise_why_not(self) -> None:
        if self.error is not None:
            raise type(self.error)(self.error.code, self.error.message) from self.error
        raise StateError("send: the producer is closed")


def _aborted() -> AbortableError:
    return AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "not written: the transaction was aborted")
