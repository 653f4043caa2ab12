"""A data directory with everything in it, one damage to one of its files, and two starts.

The directory has a topic with committed and aborted transactions in several segments, one with deleted records, one
that was compacted, and one that was written after the last checkpoint. The oracle is what a read_committed reader saw.

The law: after each start, a partition shows exactly what it showed, or is offline with a line that names its folder and
the remedy, or ends in front of a batch that the reader's checksum finds damaged. Nothing aborted or deleted is shown. A
compacted log may show again what its compaction had removed, if a segment is older or cut and the journal has it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache
from random import Random
from uuid import UUID

from semel.errors import DecodeError, KafkaError
from semel.log.compaction.cleaner import LogCleaner
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.disk import read_file, write_file
from semel.log.durability.checkpoints import MetaProperties
from semel.log.outcomes import Isolation
from semel.log.partition_log import PartitionLog
from semel.log.topic_logs import TopicLogs
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.loop import VirtualLoop
from semel.types import TopicPartition
from semel.wire.records import iterate_headers, iterate_records, verify_crc
from tests.logs import NOW_MS, StepWorker, append, batch, end_transaction, produced, visible

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=120)
COMPACTED = LogConfig.from_settings({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}, SMALL)
TOPICS = {
    "payments": TopicLogs(UUID(int=1), SMALL, synced=True, partitions=(0,)),
    "trimmed": TopicLogs(UUID(int=2), SMALL, synced=True, partitions=(0,)),
    "latest": TopicLogs(UUID(int=3), COMPACTED, synced=True, partitions=(0,)),
    "fresh": TopicLogs(UUID(int=4), SMALL, synced=True, partitions=(0,)),
}
# Read before there is a log directory: ``damaged_broker`` damages these.
NOT_OURS = frozenset({".lock", "meta.properties"})
KINDS = ("flip", "cut", "zero", "delete", "older")


class Machine:
    def __init__(self, disk: VirtualDisk) -> None:
        self.disk = disk
        self.loop = VirtualLoop()
        self.workers: list[StepWorker] = []
        self.directory = LogDirectory(
            "/data", disk=disk, clock=ManualClock(NOW_MS), loop=self.loop, make_worker=self._worker
        )
        self.directory.acquire(MetaProperties("cluster", 1))
        self.directory.load(TOPICS)
        for log in self.directory.logs.values():
            log.on_durable = visible

    def _worker(self, name: str) -> StepWorker:
        self.workers.append(StepWorker())
        return self.workers[-1]

    def log(self, topic: str) -> PartitionLog:
        return self.directory.logs[TopicPartition(topic, 0)]

    def settle(self) -> None:
        for _ in range(12):
            self.loop.run_until_complete(asyncio.sleep(0))
            for worker in self.workers:
                while worker.jobs:
                    worker.step()

    def end(self, *, clean: bool) -> None:
        if clean:
            closing = self.loop.create_task(self.directory.close())
            self.settle()
            assert closing.done()
        else:
            self.directory.kill()
        self.disk.kill()


@dataclass(frozen=True)
class Prepared:
    disk: VirtualDisk
    older: VirtualDisk  # the same directory at its first checkpoint
    shown: dict[str, list[tuple[int, bytes | None]]]
    superseded: list[tuple[int, bytes | None]]  # what the compaction of ``latest`` removed


@cache
def prepared(*, clean: bool) -> Prepared:
    machine = Machine(VirtualDisk())
    _write(machine, 0)
    machine.directory.checkpoint()
    machine.settle()
    older = machine.disk.copy()
    _write(machine, 1)
    machine.log("trimmed").delete_records_before(9)
    persisting = machine.loop.create_task(machine.directory.persist_log_starts())
    machine.settle()
    assert persisting.done()
    written = committed(machine.log("latest"))[0]
    cleaner = LogCleaner(machine.directory, ManualClock(NOW_MS))
    for _ in cleaner.clean(machine.log("latest"), NOW_MS):
        pass
    machine.directory.checkpoint()
    machine.settle()
    for number in range(5):
        append(machine.log("fresh"), batch(f"after the checkpoint {number}"))
    machine.settle()
    shown = {topic: committed(machine.log(topic))[0] for topic in TOPICS}
    superseded = [record for record in written if record not in shown["latest"]]
    assert superseded
    machine.end(clean=clean)
    return Prepared(machine.disk, older, shown, superseded)


def _write(machine: Machine, round_number: int) -> None:
    payments, trimmed, latest = (machine.log(topic) for topic in ("payments", "trimmed", "latest"))
    for number in range(4):
        sequence = 4 * round_number + number
        append(payments, produced(sequence, f"paid {sequence}", producer=7, transactional=True))
        append(payments, produced(sequence, f"taken back {sequence}", producer=8, transactional=True))
        end_transaction(payments, committed=True, producer=7)
        end_transaction(payments, committed=False, producer=8)
    for number in range(8):
        append(trimmed, batch(f"row {number}"))
        append(latest, batch(f"state {round_number} {number}", keys=[b"key %d" % (number % 3)]))
    machine.settle()


def committed(log: PartitionLog) -> tuple[list[tuple[int, bytes | None]], str | None]:
    """What a read_committed reader sees, and what stopped it, if something did."""
    offset = log.log_start_offset
    seen: list[tuple[int, bytes | None]] = []
    while offset < log.last_stable_offset:
        try:
            result = log.read(offset, 4096, isolation=Isolation.READ_COMMITTED)
            batches = list(iterate_headers(result.records, allow_partial_tail=True))
        except (KafkaError, DecodeError) as error:
            return seen, str(error)
        before = offset
        for position, header in batches:
            if not verify_crc(result.records, position, header):
                return seen, f"the batch at {header.base_offset} fails its checksum"
            offset = header.next_offset
            is_aborted = header.is_transactional and any(
                entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset < entry.last_offset
                for entry in result.aborted or ()
            )
            if not header.is_control and not is_aborted:
                records = iterate_records(result.records, position)
                seen += [(record.offset, record.value) for record in records if record.offset >= log.log_start_offset]
        if offset == before:
            return seen, f"nothing can be read at {offset}"
    return seen, None


def files(disk: VirtualDisk, folder: str = "/data", *, without: frozenset[str] = frozenset()) -> list[str]:
    found = []
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if name in without:
            continue
        if folder == "/data" and name.rpartition("-")[2].isdigit():
            found += files(disk, path)
        else:
            found.append(path)
    return found


def kind_of(path: str) -> str:
    """Segments, indexes and snapshots by their suffix, all others by their name."""
    name = path.rpartition("/")[2]
    return name.partition(".")[2] if name[0].isdigit() else name


def damage(disk: VirtualDisk, older: VirtualDisk, random: Random, paths: list[str]) -> tuple[str, str]:
    """One damage to one of these files: what was done, and the path. Each kind of file is as likely as the others."""
    by_kind: dict[str, list[str]] = {}
    for path in paths:
        by_kind.setdefault(kind_of(path), []).append(path)
    path = random.choice(by_kind[random.choice(sorted(by_kind))])
    kind = random.choice(KINDS)
    data = bytearray(read_file(disk, path))
    if kind == "delete":
        disk.remove(path)
    elif kind == "older":
        if older.exists(path):
            write_file(disk, path, read_file(older, path))
    elif data:
        # Not in what was only set aside for later: most of a journal is zeros.
        at = random.randrange(len(data.rstrip(b"\0")) or len(data))
        if kind == "cut":
            del data[at:]
        else:
            # Not the base offset and leader epoch of a batch, which no checksum covers (docs/design/damage.md).
            starts = [position for position, _ in _batches(bytes(data))] if path.endswith(".log") else []
            if any(start <= at < start + 8 or start + 12 <= at < start + 16 for start in starts):
                at = next(start for start in starts if start <= at < start + 16) + 30
            if kind == "zero":
                end = min(len(data), at + random.choice((1, 8, 64, 512)))
                data[at:end] = bytes(end - at)
            else:
                data[at] ^= 1 << random.randrange(8)
        write_file(disk, path, bytes(data))
    return kind, path


def _batches(data: bytes) -> list[tuple[int, object]]:
    return list(iterate_headers(data, allow_partial_tail=True))


def withstand_as_directory(seed: int) -> dict[str, int]:
    """Raises ``AssertionError`` where the law is broken. Returns what became of the partitions."""
    random = Random(seed)
    clean = random.random() < 0.5
    case = prepared(clean=clean)
    disk = case.disk.copy()
    kind, path = damage(disk, case.older, random, files(disk, without=NOT_OURS))
    about = f"seed {seed}: {kind} of {path} after a {'clean stop' if clean else 'kill'}"
    counts = {"whole": 0, "offline": 0, "stopped at a damaged batch": 0}
    for again in (False, True):
        machine = Machine(disk)
        for topic, expected in case.shown.items():
            name = TopicPartition(topic, 0)
            offline = machine.directory.unavailable.get(name)
            if offline is not None:
                assert f"/data/{topic}-0" in offline.reason, about
                assert "semel log repair" in offline.reason, about
                assert f"/{topic}-0/" in path or path.count("/") == 2, f"{about}: {topic} suffers"
                counts["offline"] += 1
                continue
            seen, trouble = committed(machine.log(topic))
            is_its_log = path.startswith(f"/data/{topic}-0/") and path.endswith(".log")
            if trouble is not None:
                assert is_its_log, f"{about}: {topic}: {trouble}"
                assert seen == expected[: len(seen)], f"{about}: {topic} shows {seen}"
                counts["stopped at a damaged batch"] += 1
                continue
            if topic == "latest" and (kind == "older" or is_its_log):
                seen = [record for record in seen if record not in case.superseded]
            assert seen == expected, f"{about}, start {1 + again}: {topic} shows {seen}; it had {expected}"
            counts["whole"] += 1
        machine.end(clean=random.random() < 0.5)
    return counts
