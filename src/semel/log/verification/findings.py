"""The findings of a verification, in words for an operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from semel.types import TopicPartition


class Severity(Enum):
    NOTE = "note"
    """Usual after a kill or a power cut: nothing that was acknowledged is affected."""
    DERIVED = "derived"
    """A file that is derived from the log, or of which there is a second copy. It can be made again without a loss."""
    LOSS = "loss"
    """Records or settings that were acknowledged are affected."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem that was found."""

    path: str
    severity: Severity
    problem: str
    """What is wrong with the file."""
    next_start: str
    """What a broker that starts now does about it."""
    lost: str | None = None
    """Which offsets, and how many records, are affected."""
    partition: TopicPartition | None = None

    @property
    def is_damage(self) -> bool:
        return self.severity is not Severity.NOTE


@dataclass(slots=True)
class Report:
    """The result of a verification: the findings, and how much was checked."""

    findings: list[Finding] = field(default_factory=list)
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)

    def add(self, other: Report) -> None:
        self.findings += other.findings
        self.partitions += other.partitions
        self.files += other.files
        self.bytes += other.bytes
        self.batches += other.batches
        self.records += other.records
