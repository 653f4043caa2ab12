"""A producer's decisions, put together: a record gets its partition, its batch and its broker, and is settled.

    add -> admission (buffer queue, partition) -> accumulator (batches) -> sender (requests) -> settled

The law: every record that ``add`` accepted is settled exactly once, with where it was written or with why it was not.
"""

from __future__ import annotations

from random import Random

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.actions import Action
from semel.client.machine.connection.cluster_view import TopicView
from semel.client.machine.connection.connected import ConnectedMachine
from semel.client.machine.connection.connections import DATA, Connections
from semel.client.machine.connection.coordinators import CoordinatorLookup
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.accumulator import Accumulator
from semel.client.machine.producer.admission import Admission
from semel.client.machine.producer.batch import Delivery, Settlement
from semel.client.machine.producer.bulk import Bulk
from semel.client.machine.producer.partitioner import Partitioner, Partitioning
from semel.client.machine.producer.producer_id import ProducerId
from semel.client.machine.producer.sender import Sender
from semel.client.machine.producer.sequences import Identity, Numbering
from semel.client.machine.transaction.coordination import Coordination
from semel.client.machine.transaction.transaction import Transaction
from semel.client.values import PartitionProgress
from semel.clock import NEVER
from semel.errors import (
    AbortableError,
    AuthorizationFailed,
    ErrorCode,
    FatalError,
    KafkaError,
    StateError,
    UnsupportedVersion,
)
from semel.types import TopicPartition
from semel.wire.records import Headers


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
        self._metadata = Metadata(
            config.client, self._connections, random, lane=DATA, idle_ms=config.metadata_max_idle_ms
        )
        self._accumulator = Accumulator(config)
        self.admission = Admission(
            config,
            Partitioning(config, random, partitioner),
            self._metadata,
            self._accumulator,
            refused=self._refused,
        )
        self._closing = self._refuses = False
        self._broken: StateError | None = None
        self.error: KafkaError | None = None
        self.transaction: Transaction | None = None
        self._producer_id: ProducerId | None = None
        numbering: Numbering | None = None
        if config.transactional_id is not None:
            self.admission.is_open_to_all = False
            numbering = self.transaction = Transaction(
                config.transactional_id, features=lambda: self._connections.features
            )
            self._coordinators = CoordinatorLookup(config.client, self._connections, self._metadata, random, lane=DATA)
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
        """Accept a record. Returns whether ``poll`` has something new to do.

        Raises, and accepts nothing, if this producer may not send now or the record is larger than a request may be.
        """
        self._check_may_send()
        return self.admission.add(topic, value, key, partition, headers, timestamp, delivery, now_ms)

    def add_batch(
        self, topic: str, partition: int, records: bytes, record_count: int, delivery: Delivery, now_ms: float
    ) -> None:
        """Accept a batch that was encoded elsewhere, of a topic that is known. Raises as ``add`` does."""
        self._check_may_send()
        self.admission.add_batch(topic, partition, records, record_count, delivery, now_ms)

    def add_bulk(self, bulk: Bulk, delivery: Delivery, now_ms: float) -> None:
        """Accept many records of one topic. Raises as ``add`` does."""
        self._check_may_send()
        self.admission.add_bulk(bulk, delivery, now_ms)

    @property
    def is_full(self) -> bool:
        """Whether records wait for room in the buffer, so that the caller should slow down."""
        return self.admission.has_line

    @property
    def is_idle(self) -> bool:
        """Whether every record is settled."""
        return not self._accumulator.active and self.admission.is_empty

    def flush(self) -> Promise[None]:
        """Send everything without lingering. The promise is kept when all that was added before is settled."""
        flush = self._accumulator.flush()
        self.admission.join(flush)
        flush.one_is_settled()
        return flush.promise

    def know_topic(self, topic: str, now_ms: float) -> Promise[TopicView]:
        """Return a promise for the metadata of a topic."""
        if self.error is not None:
            failed: Promise[TopicView] = Promise()
            failed.fail(self.error)
            return failed
        return self.admission.know_topic(topic, now_ms)

    def is_missing(self, topic: str) -> bool:
        """Whether the last metadata says that the topic does not exist."""
        return self.admission.is_missing(topic)

    def take_settled(self) -> list[Settlement]:
        settled, self._sender.settled = self._sender.settled, []
        return settled

    def close(self) -> None:
        """Accept no more records; those that were accepted are sent without lingering."""
        self._closing = True
        self._refuse_more()

    def shut(self, now_ms: float) -> None:
        """Fail all records that are not settled, and close all connections."""
        self.close()
        closed = AbortableError(ErrorCode.NETWORK_EXCEPTION, "the producer was closed before this was acknowledged")
        self._give_up(closed, also_on_wire=True)
        if self.transaction is not None:
            self.transaction.fatal(FatalError(closed.code, "the producer is closed"))
        self._connections.close("the producer was closed", now_ms)

    def stop_after_failure(self, error: StateError) -> list[Delivery]:
        """Stop after an unexpected exception in this machine. Returns the deliveries of all unsettled records.

        They are kept apart from the queues of batches, so that none is missed, whatever state those queues are in.
        """
        self._broken = error
        self._refuse_more()
        batches = [delivery for batch in self._accumulator.unsettled for delivery in batch.deliveries]
        settled = [delivery for settlement in self._sender.settled for delivery in settlement.deliveries]
        return [*batches, *self.admission.waiting_deliveries(), *settled]

    def metrics(self) -> dict[str, float]:
        buffer_bytes = self.admission.buffer_memory
        return {
            **self._connections.metrics(),
            "record-send-total": self._sender.records_acknowledged,
            "record-error-total": self._sender.records_failed,
            "buffer-total-bytes": buffer_bytes,
            "buffer-available-bytes": max(0, buffer_bytes - self.admission.used_bytes),
        }

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch that this producer writes with, once it has them."""
        if self.transaction is not None:
            return self.transaction.current_identity
        return None if self._producer_id is None else self._producer_id.identity()

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress in each partition that this producer has written to."""
        return {
            queue.topic_partition: queue.progress
            for queue in self._accumulator.all_queues()
            if queue.sequences.identity is not None or not queue.is_empty
        }

    @property
    def waiting_for(self) -> str:
        """What keeps this producer from going on, for a message to the user."""
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
            self.admission.next_deadline_ms(now_ms),
            self._sender.next_deadline_ms(now_ms, urgent=urgent),
            NEVER if self._producer_id is None else self._producer_id.next_deadline_ms(now_ms),
            NEVER if self.transaction is None else self._coordination.next_deadline_ms(now_ms),
            NEVER if self.transaction is None else self._coordinators.next_deadline_ms(now_ms),
        )
        return self._connections.take_actions()

    # Inside

    def _poll(self, now_ms: float) -> None:
        self._connections.poll(now_ms)
        self._metadata.poll(now_ms)
        if self._producer_id is not None:
            self._producer_id.poll(now_ms)
        self.admission.poll(now_ms)
        if self.transaction is not None and self.transaction.drops_batches:
            self._give_up(self.transaction.error or _aborted())
        self._sender.poll(now_ms, urgent=self._is_urgent)
        self.admission.poll_again(now_ms)
        if self.transaction is not None:
            self._coordination.poll(now_ms, is_settled=self.is_idle)
            if self.transaction.error is not None and isinstance(self.transaction.error, FatalError):
                self._fatal(self.transaction.error)

    @property
    def _is_urgent(self) -> bool:
        committing = self.transaction is not None and self.transaction.is_ending
        return committing or self._closing or self.admission.has_line

    def _check_may_send(self) -> None:
        if self._broken is not None:
            raise StateError(str(self._broken)) from self._broken.__cause__
        if self.transaction is not None:
            self.transaction.check_may_send()
        if not self._refuses:
            return
        if self.error is not None:
            raise type(self.error)(self.error.code, self.error.message) from self.error
        raise StateError("send: the producer is closed")

    def _refuse_more(self) -> None:
        self._refuses = True
        self.admission.is_open_to_all = False

    def _refused(self, settlement: Settlement) -> None:
        """Settle records that were accepted and could not be put into a batch."""
        self._sender.records_failed += 1 if settlement.bulk_count is None else settlement.bulk_count
        self._sender.settled.append(settlement)
        if self.transaction is not None:
            error = settlement.outcome
            failure = error if isinstance(error, KafkaError) else AbortableError(ErrorCode.INVALID_RECORD, str(error))
            self.transaction.failed(failure, was_numbered=False)

    def _give_up(self, error: Exception, *, also_on_wire: bool = False) -> None:
        self.admission.give_up(error)
        self._sender.give_up(error, also_on_wire=also_on_wire)

    def _fatal(self, error: Exception) -> None:
        if self.error is not None:
            return
        assert isinstance(error, KafkaError)
        self.error = error
        self._refuse_more()
        if self.transaction is not None:
            self.transaction.fatal(error)
        self.admission.fail_topics(error)
        self._give_up(error, also_on_wire=True)


def _aborted() -> AbortableError:
    return AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "not written: the transaction was aborted")
