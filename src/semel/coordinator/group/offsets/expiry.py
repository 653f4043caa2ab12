"""The time at which an offset expires.

An offset with an explicit expiry expires at that time. Any other one expires when the retention time has passed since
the group became empty, or, if ``Retention.since_ms`` is ``None``, since its own commit.
"""

from __future__ import annotations

from semel.coordinator.group.membership import Retention
from semel.coordinator.group.records import OffsetCommit


def expires_ms(commit: OffsetCommit, retention: Retention, retention_ms: int) -> int:
    """Return the first millisecond at which the offset is expired."""
    if commit.expires_ms is not None:
        return commit.expires_ms
    since_ms = commit.committed_ms if retention.since_ms is None else retention.since_ms
    return since_ms + retention_ms
