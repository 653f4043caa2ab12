"""Logs and batches for tests: short to write, real underneath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from semel.log.config import LogConfig
from semel.log.outcomes import Appended, Isolation, Origin
from semel.log.partition_log import PartitionLog
from semel.log.recovery.loading import load_log
from semel.testing.virtual.disk import VirtualDisk
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch
from semel.wire.records import BatchHeader, Record, build_batch, iterate_headers, iterate_records

T = TypeVar("T")

NOW_MS = 1_750_000_000_000
ORDERS = TopicPartition("orders", 0)
ORDERS_ID = UUID(int=7)
FOLDER = "/data/orders-0"


def batch(
    *values: bytes | str, timestamp: int = NOW_MS, keys: list[bytes | None] | None = None, **how: Any
) -> memoryview:
    """One record per value; what ``build_batch`` takes goes through."""
    records = [
        Record(number, timestamp, keys[number] if keys else b"key", value.encode() if isinstance(value, str) else value)
        for number, value in enumerate(values)
    ]
    return memoryview(bytearray(build_batch(records, **how)))


def produced(
    sequence: int, *values: str, producer: int = 1000, epoch: int = 0, transactional: bool = False
) -> memoryview:
    """What an idempotent producer sends."""
    return batch(
        *(values or ("value",)),
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(*, committed: bool, producer: int = 1000, epoch: int = 0, coordinator_epoch: int = 0) -> memoryview:
    control = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch)
    return memoryview(
        bytearray(build_marker_batch(control, producer_id=producer, producer_epoch=epoch, timestamp=NOW_MS))
    )


def open_log(disk: VirtualDisk, *, config: LogConfig | None = None, now_ms: int = NOW_MS, **how: Any) -> PartitionLog:
    """The log in the folder, served as one node does with flush=os: what is written is visible at once."""
    disk.make_folder(FOLDER)
    how = {"topic_partition": ORDERS, "topic_id": ORDERS_ID, **how}
    log = load_log(disk, FOLDER, config=config or LogConfig(), now_ms=now_ms, **how)
    log.on_durable = visible
    return log


def visible(log: PartitionLog) -> None:
    log.advance_high_watermark(log.durable_offset)


def append(log: PartitionLog, records: memoryview, *, now_ms: int = NOW_MS) -> Appended:
    return log.append(records, now_ms=now_ms)


def end_transaction(log: PartitionLog, *, committed: bool, producer: int = 1000, epoch: int = 0) -> Appended:
    control = marker(committed=committed, producer=producer, epoch=epoch)
    return log.append(control, now_ms=NOW_MS, origin=Origin.COORDINATOR)


def read_all(
    log: PartitionLog, *, offset: int | None = None, isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> bytes:
    """Everything that may be seen, by one fetch after the other."""
    offset = log.log_start_offset if offset is None else offset
    parts: list[bytes] = []
    while True:
        found = log.read(offset, 1_000_000, isolation=isolation).records
        headers = [(position, header) for position, header in iterate_headers(found, allow_partial_tail=True)]
        if not headers:
            return b"".join(parts)
        position, last = headers[-1]
        parts.append(found[: position + last.size_bytes])
        offset = last.next_offset


def values(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record that is not a marker."""
    return [
        (record.offset, record.value)
        for data, header in batches(read_all(log))
        if not header.is_control
        for record in iterate_records(data)
    ]


def committed_values(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """The same as a read_committed consumer sees it: up to the last stable offset, without what was aborted."""
    offset = log.log_start_offset
    seen: list[tuple[int, bytes | None]] = []
    while True:
        result = log.read(offset, 1_000_000, isolation=Isolation.READ_COMMITTED)
        found = batches(result.records)
        if not found:
            return seen
        assert result.aborted is not None
        for data, header in found:
            offset = header.next_offset
            if header.is_control:
                continue
            aborted = header.is_transactional and any(
                entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in result.aborted
            )
            if not aborted:
                seen += [(record.offset, record.value) for record in iterate_records(data)]


def batches(data: bytes) -> list[tuple[bytes, BatchHeader]]:
    return [
        (data[position : position + header.size_bytes], header)
        for position, header in iterate_headers(data, allow_partial_tail=True)
    ]


class StepWorker:
    """A worker that works when told: ``step`` does one job. For tests of what happens in between."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []
        self.results: list[Callable[[], None]] = []
        self.error: BaseException | None = None  # what the next job meets instead of being done

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None], *, brief: bool = False) -> None:
        def job() -> None:
            result: T | BaseException
            failure, self.error = self.error, None
            try:
                result = work() if failure is None else failure
            except Exception as error:
                result = error
            self.results.append(lambda: done(result))

        self.jobs.append(job)

    def step(self) -> None:
        self.work()
        self.tell()

    def work(self) -> None:
        """Do one job, and tell nobody yet."""
        self.jobs.pop(0)()

    def tell(self) -> None:
        self.results.pop(0)()

    def stop(self) -> None:
        while self.jobs:
            self.step()

    def kill(self) -> None:
        self.jobs.clear()
