"""Verification of one partition's producer snapshots and leader epochs against the batches of its log."""

from __future__ import annotations

from typing import NamedTuple

from semel.errors import DecodeError
from semel.log.disk import Disk, read_file
from semel.log.durability import checkpoints
from semel.log.producers import producer_snapshot
from semel.log.producers.producer_snapshot import ProducerEntry
from semel.log.producers.producer_state import CompletedTransaction, ProducerStates
from semel.log.verification.findings import Finding, Severity
from semel.log.verification.walk import WalkedBatch
from semel.types import TopicPartition
from semel.wire.control import parse_marker


class Ended(NamedTuple):
    """A transaction whose marker was seen, and the last stable offset after it."""

    transaction: CompletedTransaction
    last_stable_offset: int


class ReplayedProducers:
    """The producer state replayed from the log, and the snapshots, each of which is compared with it at its offset."""

    def __init__(
        self, disk: Disk, folder: str, names: list[str], partition: TopicPartition, start: int, *, is_compacted: bool
    ) -> None:
        self._partition = partition
        self._is_compacted = is_compacted
        self._states = ProducerStates(partition)
        self._findings: list[Finding] = []
        self._snapshots: list[tuple[int, str, list[ProducerEntry]]] = []
        self.ended: list[Ended] = []
        self.files = 0
        self.known_from = start
        for name in names:
            if not name.endswith(".snapshot"):
                continue
            path = f"{folder}/{name}"
            self.files += 1
            try:
                self._snapshots.append(
                    (int(name.removesuffix(".snapshot")), path, producer_snapshot.decode(read_file(disk, path)))
                )
            except (DecodeError, ValueError) as error:
                self._damaged(path, str(error))
        self._snapshots.sort()
        if self._snapshots and self._snapshots[0][0] == start and start > 0:
            # Producers and transactions that began before the first segment are in this snapshot only.
            self._states.load(self._snapshots.pop(0)[2])

    def batch(self, batch: WalkedBatch) -> None:
        self._compare(batch.header.base_offset)
        if batch.header.has_producer_id:
            marker = parse_marker(batch.data) if batch.data is not None and batch.header.is_control else None
            completed = self._states.replay(batch.header, marker)
            if completed is not None:
                undecided = self._states.first_undecided_offset
                stable = completed.last_offset + 1 if undecided is None else undecided
                self.ended.append(Ended(completed, stable))

    def findings(self, end_offset: int) -> list[Finding]:
        self._compare(end_offset)
        return self._findings

    def _compare(self, end_offset: int) -> None:
        """Compare the snapshots at or below ``end_offset`` with the state after the batches below it."""
        while self._snapshots and self._snapshots[0][0] <= end_offset:
            _, path, entries = self._snapshots.pop(0)
            if self._is_compacted:
                continue  # The batches that compaction has left of a producer may lead to another state.
            replayed = {entry.producer_id: entry for entry in self._states.snapshot_entries()}
            for entry in entries:
                known = replayed.get(entry.producer_id)
                # A producer whose batches were removed by retention is in the snapshot only.
                if known is not None and _position(known) != _position(entry):
                    self._damaged(
                        path, f"producer {entry.producer_id} is at {_position(entry)}; the log has {_position(known)}"
                    )
                    break

    def _damaged(self, path: str, problem: str) -> None:
        finding = Finding(
            path,
            Severity.DERIVED,
            problem,
            "passes over it, and replays the log from the one before",
            None,
            self._partition,
        )
        self._findings.append(finding)


def _position(entry: ProducerEntry) -> str:
    return (
        f"epoch {entry.producer_epoch}, sequence {entry.last_sequence}, offset {entry.last_offset}, transaction from "
        f"{entry.transaction_first_offset}"
    )


class SeenEpochs:
    """The leader epochs of a partition's batches, and the file that should have them."""

    def __init__(self, disk: Disk, folder: str, partition: TopicPartition) -> None:
        self._path = f"{folder}/{checkpoints.LEADER_EPOCH_FILE}"
        self._partition = partition
        self._seen: dict[int, int] = {}
        self._problem: str | None = None
        self.exists = disk.exists(self._path)
        self._entries: dict[int, int] = {}
        try:
            self._entries = dict(checkpoints.read_leader_epochs(disk, self._path))
        except DecodeError as error:
            self._problem = str(error).removeprefix(f"{self._path}: ")

    def batch(self, batch: WalkedBatch) -> None:
        epoch = batch.header.partition_leader_epoch
        if epoch >= 0 and epoch not in self._seen:
            self._seen[epoch] = batch.header.base_offset

    def findings(self, recovery_point: int) -> list[Finding]:
        for epoch, offset in self._seen.items():
            start = self._entries.get(epoch)
            if self._problem is None and offset < recovery_point and (start is None or start > offset):
                said = "has not" if start is None else f"lets begin at {start}"
                self._problem = f"it {said} epoch {epoch}, of which the log has a batch at offset {offset}"
        if self._problem is None:
            return []
        return [
            Finding(
                self._path,
                Severity.DERIVED,
                self._problem,
                "takes the epochs from partition.checkpoint, or from the log",
                None,
                self._partition,
            )
        ]
