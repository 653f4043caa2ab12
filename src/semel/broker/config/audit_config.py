"""The settings of the audit log. Kafka has none of them: it writes its audit log with its logging library."""

from __future__ import annotations

from dataclasses import dataclass

from semel.settings import AtLeast, SettingType, declare


@dataclass(frozen=True)
class AuditConfig:
    """A part of ``BrokerConfig``."""

    audit_log_path: str | None = declare(
        "audit.log.path",
        SettingType.STRING,
        None,
        "The file of the audit log: a JSON line for each login and request that was refused, and each change that was "
        "allowed. Without it there is none. Semel's own.",
    )
    audit_log_max_bytes: int = declare(
        "audit.log.max.bytes",
        SettingType.LONG,
        64 * 2**20,
        "When the file has this size, it is kept under a number and another one is begun. Semel's own.",
        rule=AtLeast(1024),
    )
    audit_log_max_files: int = declare(
        "audit.log.max.files", SettingType.INT, 10, "How many files of it are kept. Semel's own.", rule=AtLeast(1)
    )
