"""The objects that a membership of either protocol works with."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from semel.client.config.consumer import ConsumerConfig
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.group.coordinator import GroupCoordinator
from semel.client.machine.group.poll_liveness import PollLiveness
from semel.client.machine.group.reassignment import Reassignment


@dataclass(frozen=True, slots=True, eq=False)
class MemberContext:
    config: ConsumerConfig
    coordinator: GroupCoordinator
    metadata: Metadata
    reassignment: Reassignment
    poll_liveness: PollLiveness
    random: Random
