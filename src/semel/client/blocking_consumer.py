"""``semel.blocking.Consumer``: the same consumer, for threads.

The asyncio consumer runs in a thread of its own. Records that are here already are taken from its machine directly,
under the lock that the driver takes too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from semel.client.consumer import Consumer as AsyncConsumer
from semel.client.loop_thread import LoopThread
from semel.client.offsets import PartitionLike
from semel.client.values import ConsumerRecord, OffsetAndTimestamp
from semel.types import TopicPartition


class Consumer:
    """``semel.Consumer`` without asyncio: every call that would be awaited blocks instead.

    with Consumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        for record in consumer:
            ...
    """

    def __init__(self, **settings: Any) -> None:
        self._guard = threading.RLock()
        self._consumer = AsyncConsumer(guard=self._guard, **settings)
        self._thread = LoopThread("consumer")
        self._thread.run(self._consumer.start())

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {repr(self._consumer)[1:]}"

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        self._thread.check()
        self._consumer.assign(partitions)

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    def seek(self, partition: PartitionLike, offset: int) -> None:
        self._thread.check()
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._consumer.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._consumer.seek_to_end(*partitions)

    def pause(self, *partitions: PartitionLike) -> None:
        self._consumer.pause(*partitions)

    def resume(self, *partitions: PartitionLike) -> None:
        self._thread.check()
        self._consumer.resume(*partitions)

    def position(self, partition: PartitionLike) -> int:
        return self._thread.run(self._consumer.position(partition))

    def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return self._thread.run(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        return self._thread.run(self._consumer.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[PartitionLike, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._thread.run(self._consumer.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> int:
        return self._thread.run(self._consumer.partitions_for(topic))

    def poll(self, timeout_ms: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        self._thread.check()
        records = self._consumer.take(max_records)
        if records:
            return records
        return self._thread.run(self._consumer.poll(timeout_ms, max_records=max_records))

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> ConsumerRecord:
        if not self._thread.is_running:
            raise StopIteration
        return self.poll(max_records=1)[0]

    def close(self) -> None:
        if self._thread.is_running:
            self._thread.run(self._consumer.close())
            self._thread.stop()
