"""Loading a shard: the replay of its partition, from the log start to the log end, a slice per turn of the loop.

Shards that are loaded at the same time stand in line, so that the loop is busy with one slice per turn for all of them.

The law: what comes out is what was there. Every batch is checked against its CRC, records are replayed in their order
at their offsets, markers where they stand. What cannot be read ends the loading, and the shard stays closed
(COORDINATOR_NOT_AVAILABLE) with a line in the log: a coordinator that knows only half would give wrong answers.

What was appended and is not yet safe is waited for, since it can neither be counted nor be left out.
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
from semel.log.outcomes import Isolation
from semel.types import ProducerIdentity
from semel.wire.control import parse_marker
from semel.wire.records import BatchHeader, iterate_headers, iterate_records, read_single, verify_crc

logger = logging.getLogger("semel.broker")

# How long the loop is busy with loading before others get their turn.
SLICE_MS: Final = 5.0
# What is read, decoded and replayed in one go: a few milliseconds' worth.
READ_BYTES: Final = 32 * 1024

AnyShard = TypeVar("AnyShard", bound=Shard[Any])


class LoadingLine:
    """The shards that wait for a slice. The first in line is loaded to its end, so that its ids are served soon."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def __bool__(self) -> bool:
        return bool(self._line)

    def join(self, load_slice: Callable[[], None]) -> None:
        self._line.append(load_slice)
        self._schedule()

    def stay_first(self, load_slice: Callable[[], None]) -> None:
        self._line.appendleft(load_slice)
        self._schedule()

    def _schedule(self) -> None:
        if self._line and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        self._line.popleft()()
        self._schedule()


class ShardLoading(Generic[AnyShard]):
    """One loading, under way until ``loaded`` is called, the log fails it, or the runtime is unloaded."""

    def __init__(
        self,
        runtime: ShardRuntime[AnyShard],
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        loaded: Callable[[ShardRuntime[AnyShard]], None],
        line: LoadingLine | None = None,
        slice_ms: float = SLICE_MS,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._loaded = loaded
        self._line = LoadingLine(loop) if line is None else line
        self._slice_ms = slice_ms
        self._read_bytes = read_bytes
        self._end_offset = runtime.partition.log.log_end_offset
        self._slices = self._replay()

    def begin(self) -> None:
        """Load what fits into a slice at once, if no other shard is in line: a small one is ready when this returns."""
        log = self._runtime.partition.log
        if log.offline is not None:
            self.failed(None, ErrorCode.KAFKA_STORAGE_ERROR)
        elif log.high_watermark < self._end_offset:
            self._runtime.partition.when_committed(self._end_offset - 1, self, None)
        else:
            self.committed(None)

    def committed(self, token: object) -> None:
        if self._line:
            self._line.join(self._load_slice)
        else:
            self._load_slice()

    def failed(self, token: object, code: ErrorCode) -> None:
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._runtime.unload()  # Its term is over before it was loaded.
        else:
            self._give_up(code.name)

    def _load_slice(self) -> None:
        if self._runtime.refusal is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return
        until_ms = self._clock.monotonic_ms() + self._slice_ms
        try:
            for _ in self._slices:
                if self._clock.monotonic_ms() >= until_ms:
                    self._line.stay_first(self._load_slice)
                    return
        except (DecodeError, KafkaError) as error:
            self._give_up(error)
            return
        self._runtime.loaded()
        self._loaded(self._runtime)

    def _give_up(self, reason: object) -> None:
        if self._runtime.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            log = self._runtime.partition.log
            self._runtime.failure = f"its coordinator could not be loaded from {log.folder}: {reason}; {REMEDY}"
            logger.error("%s: %s", log.topic_partition, self._runtime.failure)
            self._runtime.unload(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _replay(self) -> Iterator[None]:
        log = self._runtime.partition.log
        offset = log.log_start_offset
        while offset < self._end_offset:
            records = log.read(offset, self._read_bytes, isolation=Isolation.READ_UNCOMMITTED).records
            next_offset = offset
            for position, header in iterate_headers(records, allow_partial_tail=True):
                if not verify_crc(records, position, header):
                    raise DecodeError(f"the batch at offset {header.base_offset} fails its CRC")
                self._replay_batch(records, position, header)
                next_offset = header.next_offset
            if next_offset == offset:
                return  # Compaction has left nothing behind this offset.
            offset = next_offset
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
