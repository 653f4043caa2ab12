"""The kinds of groups."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupKind(StrEnum):
    """As ListGroups and DescribeGroups spell it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


STATE_NAMES: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind.CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    GroupKind.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable"),
}
"""Kafka's words for the states of each kind."""
