"""The batches of a producer (Kafka: ``RecordAccumulator``): one open batch per partition, within buffer.memory.

The law: ``buffered_bytes`` counts every accepted record that is not settled, that is, neither acknowledged nor failed.
A record is accepted while it is below ``buffer.memory``, so the limit is exceeded by one record at most.
"""

from __future__ import annotations

from collections.abc import Iterator

from semel.client.config.producer import ProducerConfig
from semel.client.machine.producer.batch import Delivery, Flush, ProducerBatch
from semel.client.machine.producer.partition_queue import PartitionQueue
from semel.types import TopicPartition
from semel.wire.records import BatchBuilder, Headers


class Accumulator:
    def __init__(self, config: ProducerConfig) -> None:
        self._batch_size = config.batch_size_max
        self._codec = config.compression_type
        self._compression_level = config.compression_level
        self._linger_ms = config.linger_ms
        self._queues: dict[str, list[PartitionQueue]] = {}
        self._flushing = 0
        self.buffered_bytes = 0
        self.active: dict[PartitionQueue, None] = {}
        """The partitions that have batches. The partition that was served last comes last."""
        self.unsettled: dict[ProducerBatch, None] = {}
        """Every batch whose records are not settled, wherever it is."""

    def queues(self, topic: str, partition_count: int) -> list[PartitionQueue]:
        """Return the queues of a topic, one per partition; queues of new partitions are created."""
        queues = self._queues.get(topic)
        if queues is None or len(queues) < partition_count:
            queues = self._queues.setdefault(topic, [])
            for index in range(len(queues), partition_count):
                queues.append(PartitionQueue(TopicPartition(topic, index)))
        return queues

    def all_queues(self) -> Iterator[PartitionQueue]:
        """Yield the queue of every partition of the topics that were sent to."""
        for queues in self._queues.values():
            yield from queues

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        return self._queues[topic_partition.topic][topic_partition.partition]

    def append(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        delivery: Delivery,
        now_ms: float,
    ) -> bool:
        """Put a record into its partition's batch. Returns whether that changed what can be sent, or when."""
        batch = queue.open
        if batch is not None:
            before_bytes = batch.size_bytes
            if batch.append(timestamp, key, value, headers, delivery):
                self.buffered_bytes += batch.size_bytes - before_bytes
                if batch.size_bytes < self._batch_size:
                    return False
                queue.open = None
                return True
        builder = BatchBuilder(
            size_bytes_max=self._batch_size, codec=self._codec, compression_level=self._compression_level
        )
        batch = ProducerBatch(queue.topic_partition, builder, now_ms)
        batch.append(timestamp, key, value, headers, delivery)
        self.unsettled[batch] = None
        self.buffered_bytes += batch.size_bytes
        queue.waiting.append(batch)
        queue.open = batch if batch.size_bytes < self._batch_size else None
        self.active[queue] = None
        return True

    def append_built(
        self, queue: PartitionQueue, records: bytes, record_count: int, delivery: Delivery, now_ms: float
    ) -> ProducerBatch:
        """Queue an encoded batch behind those that wait. The open batch before it takes no more records."""
        batch = ProducerBatch.built(queue.topic_partition, records, record_count, delivery, now_ms)
        self.unsettled[batch] = None
        queue.open = None
        queue.waiting.append(batch)
        self.buffered_bytes += batch.size_bytes
        self.active[queue] = None
        return batch

    def served(self, queue: PartitionQueue) -> None:
        """Put a partition last that was served, so that the others come first."""
        del self.active[queue]
        self.active[queue] = None

    def settled(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Release the memory of a batch that is settled and out of its queue."""
        self.buffered_bytes -= batch.size_bytes
        if queue.is_empty:
            self.active.pop(queue, None)
        for flush in batch.flushes:
            flush.one_is_settled()

    def replaced(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        self.unsettled.update(dict.fromkeys(parts))
        del self.unsettled[batch]
        self.buffered_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes
        for flush in batch.flushes:
            flush.one_is_settled()

    def linger_deadline_ms(self, queue: PartitionQueue, *, urgent: bool) -> float:
        """Return when the first new batch may be sent: a time in the past if it is full or nothing is to linger."""
        if urgent or self._flushing or queue.returned or len(queue.waiting) > 1 or queue.open is None:
            return 0.0
        return queue.waiting[0].created_ms + self._linger_ms

    # Flushing

    def incomplete(self) -> Iterator[ProducerBatch]:
        for queue in self.active:
            yield from queue.batches()

    def flush(self) -> Flush:
        """Send everything without lingering, and return a flush that waits for it.

        The caller adds what else the flush waits for, and then calls ``one_is_settled`` for the flush itself.
        """
        flush = Flush()
        self._flushing += 1
        flush.promise.then(lambda _: self._flushed())
        for batch in self.incomplete():
            flush.wait_for_one_more()
            batch.flushes.append(flush)
        return flush

    def _flushed(self) -> None:
        self._flushing -= 1
