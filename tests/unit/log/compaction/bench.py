"""A compacted log for tests: short to fill, to clean, to crash, and to read as consumers do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from semel.log.compaction.cleaner import LogCleaner
from semel.log.config import CleanupPolicy, LogConfig
from semel.log.durability.checkpointing import carry_out, checkpointed, prepare_checkpoint
from semel.log.outcomes import Appended, Isolation, Origin
from semel.log.partition_log import PartitionLog
from semel.log.recovery.loading import load_log
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch, parse_marker
from semel.wire.records import BatchHeader, Codec, Record, build_batch, iterate_records
from tests.logs import FOLDER, ORDERS, ORDERS_ID, batches

START_MS = 1_750_000_000_000
DATA = "/data"

COMPACT = frozenset({CleanupPolicy.COMPACT})
COMPACT_DELETE = frozenset({CleanupPolicy.COMPACT, CleanupPolicy.DELETE})


class Read(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass
class OneLog:
    """A log directory with one log in it."""

    disk: VirtualDisk
    logs: dict[TopicPartition, PartitionLog]
    path: str = DATA


@dataclass
class Sent:
    """What an idempotent producer knows of a batch that it sent."""

    data: bytes
    epoch: int
    base_offset: int


@dataclass
class Bench:
    """Every record of a test is in a batch of its own unless it is put together with others."""

    disk: VirtualDisk = field(default_factory=VirtualDisk)
    now_ms: int = START_MS
    recovery_point: int = 0
    log_start_offset: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: dict[int, list[Sent]] = field(default_factory=dict)
    log: PartitionLog = field(init=False)

    def __post_init__(self) -> None:
        self.disk.make_folder(FOLDER)
        for folder in ("/", DATA):
            self.disk.sync_directory(folder)
        self.open()

    @property
    def config(self) -> LogConfig:
        return LogConfig(**{"cleanup_policy": COMPACT, "index_interval_bytes": 200, **self.settings})

    def open(self) -> PartitionLog:
        self.log = load_log(
            self.disk,
            FOLDER,
            topic_partition=ORDERS,
            topic_id=ORDERS_ID,
            config=self.config,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            now_ms=self.now_ms,
        )
        self.log.recovered()
        self.log.on_durable = lambda log: bool(log.advance_high_watermark(log.durable_offset)) and None
        return self.log

    def copy(self, random: Random | None = None) -> Bench:
        """Another bench in the same state, opened by another process."""
        other = self.unopened(random)
        other.open()
        return other

    def unopened(self, random: Random | None = None) -> Bench:
        other = Bench.__new__(Bench)
        other.disk, other.now_ms = self.disk.copy(random), self.now_ms
        other.recovery_point, other.log_start_offset = self.recovery_point, self.log_start_offset
        other.settings, other.sequences = dict(self.settings), dict(self.sequences)
        other.sent = {producer: list(sent) for producer, sent in self.sent.items()}
        return other

    # Writing

    def put(
        self,
        *records: tuple[str | None, str | None],
        producer: int | None = None,
        epoch: int = 0,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
        timestamp: int | None = None,
    ) -> Appended:
        how: dict[str, Any] = {"codec": codec}
        if producer is not None:
            sequence = self.sequences.get((producer, epoch), 0)
            self.sequences[producer, epoch] = sequence + len(records)
            how |= {"producer_id": producer, "producer_epoch": epoch, "base_sequence": sequence}
        timestamp = self.now_ms if timestamp is None else timestamp
        data = build_batch(
            [
                Record(number, timestamp, key and key.encode(), value if value is None else value.encode())
                for number, (key, value) in enumerate(records)
            ],
            is_transactional=transactional,
            **how,
        )
        # As a coordinator's, which is not asked for keys: a topic may have had another policy before.
        appended = self.log.append(memoryview(bytearray(data)), now_ms=self.now_ms, origin=Origin.COORDINATOR)
        if producer is not None:
            self.sent.setdefault(producer, []).append(Sent(data, epoch, appended.base_offset))
        return appended

    def end(self, producer: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0) -> None:
        """As a leader's copy: with transactions V2 a marker has another epoch than the records that it ends."""
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch)
        data = build_marker_batch(
            marker,
            producer_id=producer,
            producer_epoch=epoch,
            timestamp=self.now_ms,
            base_offset=self.log.log_end_offset,
            partition_leader_epoch=self.log.leader_epoch,
        )
        self.log.append_copied(memoryview(data), now_ms=self.now_ms)
        self.log.durable_offset = self.log.log_end_offset
        self.log.on_durable(self.log)

    def commit(self, producer: int, **how: Any) -> None:
        self.end(producer, committed=True, **how)

    def abort(self, producer: int, **how: Any) -> None:
        self.end(producer, committed=False, **how)

    def delete_before(self, offset: int) -> None:
        self.log_start_offset = self.log.delete_records_before(offset)

    def roll(self) -> None:
        self.log.roll(self.now_ms)

    def checkpoint(self) -> None:
        """What the directory's worker does: afterwards all that was written is below the recovery point."""
        checkpoint = prepare_checkpoint(self.log)
        self.disk.sync_directory(FOLDER)
        if checkpoint is None:
            return
        (moved,) = carry_out(self.disk, FOLDER, [checkpoint]).moved
        checkpointed(moved)
        self.recovery_point = checkpoint.offset

    # Cleaning

    def cleaner(self, **how: Any) -> LogCleaner:
        return LogCleaner(OneLog(self.disk, {ORDERS: self.log}), ManualClock(self.now_ms), **how)

    def clean(self, cleaner: LogCleaner | None = None) -> LogCleaner:
        """Close what was written and clean all of it that may be cleaned."""
        self.roll()
        self.checkpoint()
        cleaner = cleaner or self.cleaner()
        for _ in cleaner.clean(self.log, self.now_ms):
            pass
        return cleaner

    # Reading

    def headers(self) -> list[BatchHeader]:
        return [header for _, header in self.batches()]

    def batches(self) -> list[tuple[bytes, BatchHeader]]:
        """Everything in the files, in order, up to the log end."""
        return [(bytes(data), header) for segment in self.log.segments for _, header, data in segment.batches()]

    def records(self) -> list[Read]:
        """What a read_uncommitted consumer is given."""
        return list(consume(self.log, Isolation.READ_UNCOMMITTED))

    def committed(self, *, max_bytes: int = 300) -> list[Read]:
        return list(consume(self.log, Isolation.READ_COMMITTED, max_bytes=max_bytes))

    def contents(self) -> list[tuple[int, str | None, str | None]]:
        """Offset, key and value of every record that is not a marker, as text."""
        return [(read.offset, _text(read.key), _text(read.value)) for read in self.records()]

    def aborted(self) -> list[tuple[int, int, int]]:
        """Producer, first and last offset in the transaction indexes."""
        return [
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for segment in self.log.segments
            for entry in segment.transaction_index
        ]


def consume(log: PartitionLog, isolation: Isolation, *, max_bytes: int = 300) -> Iterator[Read]:
    """A consumer as the clients' libraries have it, with small fetches.

    Of a read_committed fetch it drops what a producer wrote from the first offset of an aborted transaction on, until
    it meets an abort marker of that producer. So an entry whose marker is missing hides what is not aborted.
    """
    offset = log.log_start_offset
    while True:
        result = log.read(offset, max_bytes, isolation=isolation)
        found = batches(result.records)
        if not found:
            return
        waiting = sorted(result.aborted or (), key=lambda entry: entry.first_offset)
        aborted: set[int] = set()
        for data, header in found:
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if header.is_control:
                marker = parse_marker(data)
                if marker is not None and not marker.committed:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                for record in iterate_records(data):
                    if record.offset >= offset:
                        yield Read(record.offset, record.key, record.value, record.timestamp)
        offset = found[-1][1].next_offset


def latest(reads: list[Read]) -> dict[bytes, bytes]:
    """What a table made from the log holds: the last value of each key, tombstones taken away."""
    table: dict[bytes, bytes] = {}
    for read in reads:
        if read.key is None:
            continue
        if read.value is None:
            table.pop(read.key, None)
        else:
            table[read.key] = read.value
    return table


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
