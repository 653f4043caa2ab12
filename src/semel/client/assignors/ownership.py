"""The previous owner of each partition, according to what the members claim.

Claims can contradict each other: a member that was away still claims partitions that another member has now. The law:
the owner is the member whose claim has the latest generation; if several claims have it, there is no owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from semel.types import TopicPartition


class Claim(NamedTuple):
    """The partitions that a member says it was assigned, and in which generation; a claim without one counts least."""

    partitions: tuple[TopicPartition, ...] = ()
    generation_id: int | None = None


def owners_of(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    latest: dict[TopicPartition, int] = {}
    owners: dict[TopicPartition, str | None] = {}
    for member_id, (partitions, generation_id) in claims.items():
        generation = _BEFORE_ALL if generation_id is None else generation_id
        for partition in dict.fromkeys(partitions):
            if partition not in latest or generation > latest[partition]:
                latest[partition], owners[partition] = generation, member_id
            elif generation == latest[partition]:
                owners[partition] = None
    return {partition: owner for partition, owner in owners.items() if owner is not None}


_BEFORE_ALL = -1
