"""The kinds of groups."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupKind(StrEnum):
    """The kind of a group, spelled as in ListGroups and DescribeGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


STATE_NAMES: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind.CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"),
    GroupKind.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable"),
}
"""Kafka's names for the states of each kind of group."""
