"""Loading a shard: replays its partition from the log start to the log end, a slice in each turn of the event loop.

Shards that are loaded at the same time wait in one queue, so that loading takes one slice of each turn altogether.

The law: the loaded state is exactly what the log contains. Every batch is checked against its CRC, and records and
markers are replayed in the order of their offsets. If a batch cannot be read, the loading ends, an error is logged, and
the shard refuses requests with COORDINATOR_NOT_AVAILABLE: a coordinator with an incomplete state would give wrong
answers. But if a file cannot be opened because no descriptors are left, the loading goes on later. And if the log is
damaged and other brokers are in sync, it goes offline here, so that one of them leads the shard.

Loading begins when all records in the log are committed, since uncommitted ones may neither be replayed nor be left
out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.clock import Clock
from semel.coordinator.shard import Shard
from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.log.damage import REMEDY
from semel.log.disk import NO_DESCRIPTORS
from semel.log.outcomes import Isolation
from semel.log.partition_log import PartitionLog
from semel.types import ProducerIdentity
from semel.wire.control import parse_marker
from semel.wire.records import BatchHeader, iterate_headers, iterate_records, read_single, verify_crc

logger = logging.getLogger("semel.broker")

# How long one slice of loading may occupy the event loop.
SLICE_MS: Final = 5.0
# How long small shards may be loaded at once in one turn, when terms begin. The others join the queue.
AT_ONCE_MS: Final = 20.0
# How many bytes are read, decoded and replayed in one step: this takes a few milliseconds.
READ_BYTES: Final = 32 * 1024
# How long the loading waits before it tries again to open a file for which there was no descriptor.
RETRY_S: Final = 1.0

AnyShard = TypeVar("AnyShard", bound=Shard[Any])


class LoadingQueue:
    """The queue of shards that are being loaded. The first shard is loaded completely before the next, so that its ids
    are served soon."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._spent_ms = 0.0
        """For how long shards were loaded in this turn of the event loop."""

    @property
    def has_time(self) -> bool:
        """Whether a shard may be loaded at once: none waits, and those of this turn have left time."""
        return not self._queue and self._spent_ms < AT_ONCE_MS

    def spent(self, time_ms: float) -> None:
        """Record for how long a shard was loaded now."""
        if not self._spent_ms and time_ms:
            self._loop.call_soon(self._next_turn)
        self._spent_ms += time_ms

    def join(self, load_slice: Callable[[], None]) -> None:
        self._queue.append(load_slice)
        self._schedule()

    def stay_first(self, load_slice: Callable[[], None]) -> None:
        self._queue.appendleft(load_slice)
        self._schedule()

    def _schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next_turn(self) -> None:
        self._spent_ms = 0.0

    def _next(self) -> None:
        self._scheduled = False
        try:
            self._queue.popleft()()
        finally:
            self._schedule()


class ShardLoading(Generic[AnyShard]):
    """The loading of one shard. It ends when ``loaded`` is called, when the log cannot be read, or when the runtime is
    unloaded."""

    def __init__(
        self,
        runtime: ShardRuntime[AnyShard],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        loaded: Callable[[ShardRuntime[AnyShard]], None],
        report_damage: Callable[[PartitionLog, str], None] | None = None,
        queue: LoadingQueue | None = None,
        slice_ms: float = SLICE_MS,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._runtime = runtime
        self._loop = loop
        self._clock = clock
        self._loaded = loaded
        self._report_damage = report_damage
        self._queue = LoadingQueue(loop) if queue is None else queue
        self._slice_ms = slice_ms
        self._read_bytes = read_bytes
        self._offset = 0
        """Everything below it is replayed."""
        self._end_offset = runtime.partition.log.log_end_offset
        self._slices = self._replay()

    def begin(self) -> None:
        """Load the first slice at once if there is time in this turn: a small shard is loaded when this returns."""
        log = self._runtime.partition.log
        if log.offline is not None:
            self.failed(None, ErrorCode.KAFKA_STORAGE_ERROR)
        elif log.high_watermark < self._end_offset:
            self._runtime.partition.when_committed(self._end_offset - 1, self, None)
        else:
            self.committed(None)

    def committed(self, token: object) -> None:
        if self._queue.has_time:
            self._load_slice()
        else:
            self._queue.join(self._load_slice)

    def failed(self, token: object, code: ErrorCode) -> None:
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._runtime.unload()  # Its term is over before it was loaded.
        else:
            self._give_up(code.name)

    def _load_slice(self) -> None:
        if self._runtime.refusal is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return
        began_ms = self._clock.monotonic_ms()
        until_ms = began_ms + self._slice_ms
        try:
            for _ in self._slices:
                if self._clock.monotonic_ms() >= until_ms:
                    self._queue.stay_first(self._load_slice)
                    return
        except (DecodeError, KafkaError) as error:
            if _lacks_descriptors(error):
                logger.warning("its coordinator is loaded later: %s", error)
                self._slices = self._replay()
                self._loop.call_later(RETRY_S, self._queue.join, self._load_slice)
            elif not self._leaves_it_to_another():
                self._give_up(error)
            return
        except Exception as error:
            # A bug, or no memory. Without an end of the loading, clients would try again for ever.
            logger.exception("%s could not be replayed", self._runtime.partition.topic_partition)
            self._give_up(f"{type(error).__name__}: {error}")
            return
        self._queue.spent(self._clock.monotonic_ms() - began_ms)
        self._runtime.loaded()
        self._loaded(self._runtime)

    def _leaves_it_to_another(self) -> bool:
        """Take the log offline if it is damaged here and other brokers are in sync. Returns whether that is so.

        A record that is sound and cannot be decoded is the same on all of them.
        """
        partition = self._runtime.partition
        if self._report_damage is None or not partition.others_are_in_sync:
            return False
        damage = partition.log.verify_copy(self._offset, self._read_bytes)
        if damage is None:
            return False
        self._runtime.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._report_damage(partition.log, damage)
        return True

    def _give_up(self, reason: object) -> None:
        if self._runtime.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            log = self._runtime.partition.log
            self._runtime.failure = f"its coordinator could not be loaded from {log.folder}: {reason}; {REMEDY}"
            logger.error("%s: %s", log.topic_partition, self._runtime.failure)
            self._runtime.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _replay(self) -> Iterator[None]:
        log = self._runtime.partition.log
        self._offset = max(self._offset, log.log_start_offset)
        while self._offset < self._end_offset:
            records = log.read(self._offset, self._read_bytes, isolation=Isolation.READ_UNCOMMITTED).records
            next_offset = self._offset
            for position, header in iterate_headers(records, allow_partial_tail=True):
                if not verify_crc(records, position, header):
                    raise DecodeError(f"the batch at offset {header.base_offset} fails its CRC")
                self._replay_batch(records, position, header)
                next_offset = header.next_offset
            if next_offset == self._offset:
                return  # Compaction has removed all records from this offset on.
            self._offset = next_offset
            yield

    def _replay_batch(self, records: bytes, position: int, header: BatchHeader) -> None:
        shard = self._runtime.shard
        producer = None
        if header.is_transactional:
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        if header.is_control:
            marker = parse_marker(records, position)
            if marker is not None and producer is not None:
                shard.replay_marker(producer, committed=marker.committed)
            return
        single = read_single(records, position, header)
        if single is not None:
            known = shard.decode(*single)
            if known is not None:
                shard.replay(known, header.base_offset, producer)
            return
        for record in iterate_records(records, position):
            known = shard.decode(record.key, record.value)
            if known is not None:
                shard.replay(known, record.offset, producer)


def _lacks_descriptors(error: Exception) -> bool:
    """Whether a read failed because a file could not be opened: no descriptors are left."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_DESCRIPTORS
