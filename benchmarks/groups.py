"""What groups cost a broker: the heartbeats of many, and one rebalance of a large one."""

from __future__ import annotations

import itertools
import statistics
from typing import Final

from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.processors import Watch
from benchmarks.raw_members import RawMembers
from semel import blocking
from semel.admin import ConfigResource
from tools.server import Server
from tools.single_requests import committed_offsets

# The default of Kafka's clients, and ours.
HEARTBEAT_INTERVAL_S: Final = 3.0

_groups = itertools.count()


def heartbeats_workload(groups: int, group_size: int, row: Row) -> Workload:
    """The broker's processor time, in per cent of a core, while all members of so many groups heartbeat."""

    def measure(server: Server, effort: Effort) -> Measured:
        group_ids = _new_groups(server, groups if effort.seconds > 1 else groups // 10)
        _allow_connections(server, 2 * len(group_ids) * group_size)
        members = RawMembers(server, group_ids, group_size)
        members.join()
        watch = Watch(server)
        answered = members.heartbeat_for(2 * effort.seconds, HEARTBEAT_INTERVAL_S)
        usage = watch.usage()
        members.leave()
        return Measured({row.key: usage.broker_percent}, usage, notes={"heartbeats": answered})

    return Workload(row.title, (row,), measure)


def rebalance_workload(group_size: int, row: Row) -> Workload:
    """From the first JoinGroup of a group that is stable to the last answer to a SyncGroup; the median of a few."""

    def measure(server: Server, effort: Effort) -> Measured:
        members = RawMembers(server, _new_groups(server, 1), group_size)
        members.join()
        watch = Watch(server)
        taken_s = [members.rejoin() for _ in range(max(1, round(effort.seconds)))]
        usage = watch.usage()
        members.leave()
        return Measured({row.key: statistics.median(taken_s)}, usage)

    return Workload(row.title, (row,), measure)


def _allow_connections(server: Server, count: int) -> None:
    """Members have a connection each, and these are from one address: more than Semel expects unless it is told."""
    limits = {"max.connections": count, "max.connections.per.ip": count}
    with blocking.Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.configs.alter(ConfigResource.all_brokers(), limits)


def _new_groups(server: Server, count: int) -> list[str]:
    group_ids = [f"measured-{next(_groups)}" for _ in range(count)]
    committed_offsets(
        server.bootstrap_servers, group_ids[0], "orders", 1
    )  # Whoever asks first makes the internal topic.
    return group_ids
