"""Injects faults into the members of a group and its broker while the group reads a topic, and checks the group.

Faults come in a seeded order: members join and leave, are killed with SIGKILL, or are stopped for longer than their
session timeout and go on as zombies; the broker is killed in the middle of a rebalance. After each fault every
partition must be read beyond its end at that time. Until then each must make progress within half a minute, so that
none is left without a member. Committed offsets must never decrease. At the end every record must have been read at
least once, and a copy that was made in transactions must equal its source, partition by partition.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from semel import blocking
from semel.errors import SemelError
from tools.committed_watch import CommittedWatch
from tools.copy_run import differences, read_committed
from tools.feeder import PAUSE_S, Feeder
from tools.load import create_topic
from tools.member_process import CONFLUENT, OWN, Library, MemberProcess
from tools.members.role import Role
from tools.server import Server

PARTITIONS: Final = 24
SESSION_TIMEOUT_MS: Final = 3_000
STUCK_S_MAX: Final = 30.0
"""How long a partition may make no progress on an idle machine. A test, which may run on a busy one, allows more."""
BEHIND_MAX: Final = 300
"""While a partition has more unread records than this, no more are sent."""

# The settings of the broker, with which a member's death is noticed in seconds.
SETTINGS: Final = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


class Fault(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    KILL = "kill"
    PAUSE = "pause"
    KILL_BROKER = "kill-broker"


@dataclass(frozen=True, slots=True)
class Plan:
    """One group: its members use these libraries in turn, and start one after the other."""

    group: str
    libraries: tuple[Library, ...]
    protocol: str
    members: int
    is_transactional: bool = False

    @property
    def topic(self) -> str:
        return f"read-by-{self.group}"

    @property
    def target(self) -> str:
        return f"copied-by-{self.group}" if self.is_transactional else ""


@dataclass(frozen=True, slots=True)
class GroupRun:
    seed: int
    groups: tuple[str, ...]
    records: int
    faults: dict[str, int]
    gave_up: int
    looks: int
    slowest_to_catch_up_ms: int
    seconds: float
    anomalies: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.anomalies


def disturb(
    server: Server,
    plans: Sequence[Plan],
    folder: Path,
    *,
    seed: int,
    faults: Iterable[Fault],
    stuck_s_max: float = STUCK_S_MAX,
    pause_s: float = PAUSE_S,
) -> GroupRun:
    """Run groups that read one topic each, inject faults into them and the running server, and return the verdict."""
    started = time.monotonic()
    chosen = random.Random(seed)
    anomalies: list[str] = []
    counted: Counter[str] = Counter()
    slowest_s = 0.0
    with ExitStack() as stack:
        groups = [stack.enter_context(_Group(server, plan, folder, stuck_s_max, pause_s)) for plan in plans]
        for group in groups:
            group.grow()
        slowest_s = max(slowest_s, _catch_up(groups, "the start", stuck_s_max))
        for fault in faults:
            counted[str(fault)] += 1
            if fault is Fault.KILL_BROKER:
                _kill_broker(server, groups, chosen)
            else:
                for group in groups:
                    group.disturb(fault, chosen)
            slowest_s = max(slowest_s, _catch_up(groups, f"{fault} ({counted.total()})", stuck_s_max))
        for group in groups:
            group.feeder.finish()
        _catch_up(groups, "the end", stuck_s_max)
        for group in groups:
            group.leave()
    for group in groups:
        anomalies += group.anomalies()
    return GroupRun(
        seed=seed,
        groups=tuple(f"{plan.group} of {plan.members}" for plan in plans),
        records=sum(sum(group.feeder.ends()) for group in groups),
        faults=dict(counted),
        gave_up=sum(len(group.gave_up) for group in groups),
        looks=sum(group.watch.looks for group in groups),
        slowest_to_catch_up_ms=round(slowest_s * 1000),
        seconds=round(time.monotonic() - started, 1),
        anomalies=tuple(anomalies),
    )


@dataclass(slots=True)
class _Group:
    server: Server
    plan: Plan
    folder: Path
    stuck_s_max: float
    pause_s: float
    members: list[MemberProcess] = field(default_factory=list)
    gone: list[MemberProcess] = field(default_factory=list)
    gave_up: list[MemberProcess] = field(default_factory=list)
    feeder: Feeder = field(init=False)
    watch: CommittedWatch = field(init=False)
    _started: int = 0

    def __enter__(self) -> _Group:
        servers, plan = self.server.bootstrap_servers, self.plan
        for topic in filter(None, (plan.topic, plan.target)):
            create_topic(servers, topic, partitions=PARTITIONS)
        self.watch = CommittedWatch(servers, plan.group, plan.topic, PARTITIONS, self.acknowledged)
        self.feeder = Feeder(
            servers, plan.topic, partitions=PARTITIONS, pause_s=self.pause_s, is_enough=self._is_far_behind
        )
        self.feeder.start()
        self.watch.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.watch.__exit__(*exception)
        self.feeder.stop()
        for member in (*self.members, *self.gone):
            member.kill()

    def grow(self) -> None:
        """Start all members. The first one has partitions before the others start."""
        self._wait_until_at_work(self.start())
        if CONFLUENT in self.plan.libraries:
            self._wait_until_all_have_offsets()
        while len(self.members) < self.plan.members:
            self.start()
        for member in tuple(self.members):
            self._wait_until_at_work(member)

    def _wait_until_at_work(self, member: MemberProcess) -> None:
        """Wait until a member has partitions.

        A member of another library that does not get any is replaced, and counted: kafka-python 3.0.12 sometimes loops
        forever when it starts, without sending a request.
        """
        try:
            member.wait_until_assigned(self.stuck_s_max if member.library is OWN else self.stuck_s_max / 2)
        except TimeoutError:
            if member.library is OWN:
                raise
            member.kill()
            self._replace(member).wait_until_assigned(self.stuck_s_max)

    def _wait_until_all_have_offsets(self) -> None:
        """Wait until the group has committed an offset in every partition.

        librdkafka 2.16.0 requests the first offset of a partition without a committed offset. If a rebalance happens
        before the response, it reads from the beginning half a second later, even if it has read records meanwhile, and
        commits those offsets.
        """
        deadline = time.monotonic() + self.stuck_s_max
        while not all(self.watch.offsets):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.plan.group} has committed {self.watch.offsets}: {self.printed()}")
            self.tend()
            time.sleep(0.02)

    def start(self) -> MemberProcess:
        name = f"{self.plan.group}-{self._started}"
        library = self.plan.libraries[self._started % len(self.plan.libraries)]
        role = Role(
            self.server.bootstrap_servers,
            self.plan.topic,
            self.plan.group,
            name,
            self.plan.protocol,
            SESSION_TIMEOUT_MS,
            self.plan.target,
        )
        self._started += 1
        member = MemberProcess(library, role, self.folder / f"{self.plan.group}.txt")
        self.members.append(member)
        return member

    def tend(self) -> None:
        """Replace each member whose process has ended by a new one, and count it."""
        for member in [member for member in self.members if member.exit_code is not None]:
            self._replace(member)

    def _replace(self, member: MemberProcess) -> MemberProcess:
        self.gave_up.append(member)
        self._take(member)
        return self.start()

    def disturb(self, fault: Fault, chosen: random.Random) -> None:
        member = chosen.choice(self.members)
        match fault:
            case Fault.JOIN:
                self.start()
            case Fault.LEAVE:
                member.ask_to_leave()
                self._wait_until_left(member)
                self._take(member)
                self._at_least_one()
            case Fault.KILL:
                member.kill()
                self._take(member)
                self._at_least_one()
            case Fault.PAUSE:
                self._at_least_one(besides=member)
                member.pause()
                # Long enough that the member is removed from the group, and its partitions are reassigned.
                time.sleep(SESSION_TIMEOUT_MS / 1000 * 1.5)
                member.resume()
            case Fault.KILL_BROKER:
                raise AssertionError("the broker is not of one group")

    def begin_rebalance(self, chosen: random.Random) -> None:
        """Start a member, or let one leave or die, without waiting until the group has noticed it."""
        if len(self.members) > self.plan.members and chosen.random() < 0.7:
            member = chosen.choice(self.members)
            if chosen.random() < 0.5:
                member.kill()
            else:
                member.ask_to_leave()
            self._take(member)
        else:
            self.start()

    def goals(self) -> list[int]:
        """Return the offset up to which each partition must be read.

        It is one past the current end, for a record that is sent after the fault; the end itself if no more are sent.
        """
        return [end + (not self.feeder.is_finished) for end in self.feeder.ends()]

    def is_shared(self) -> bool:
        return all(member.reports.assigned for member in self.members)

    def unread(self, ends: Sequence[int]) -> dict[int, int]:
        """Return the committed offsets of the partitions that are not read up to these ends."""
        offsets = enumerate(zip(self.watch.offsets, ends, strict=True))
        return {partition: offset for partition, (offset, end) in offsets if offset < end}

    def stands_still(self, partition: int, offset: int) -> bool:
        """Whether the partition is still read only up to this offset, although more records are acknowledged in it."""
        return self.watch.offsets[partition] == offset < self.feeder.ends()[partition]

    def _is_far_behind(self) -> bool:
        pairs = zip(self.watch.offsets, self.feeder.values, strict=True)
        return any(len(values) - offset > BEHIND_MAX for offset, values in pairs)

    def leave(self) -> None:
        """Let all members leave at the same time, so that none gets the partitions of the others."""
        for member in self.members:
            member.ask_to_leave()
        for member in self.members:
            self._wait_until_left(member)

    def acknowledged(self) -> dict[int, int]:
        """Return the highest offset of each partition whose commit was acknowledged to a member.

        Empty for a transactional group, because the markers are written after the acknowledgement.
        """
        if self.plan.is_transactional:
            return {}
        highest: dict[int, int] = {}
        for member in (*self.gone, *self.members):
            for partition, offset in list(member.reports.committed.items()):
                highest[partition] = max(offset, highest.get(partition, 0))
        return highest

    def anomalies(self) -> list[str]:
        """Return the anomalies of what was read and committed. Called after all members have left."""
        found = [*self.watch.anomalies]
        ends = self.feeder.ends()
        if self.watch.offsets != ends:
            found.append(f"{self.plan.group}: committed {self.watch.offsets}, and the topic ends at {ends}")
        if self.plan.is_transactional:
            copied = read_committed(self.server.bootstrap_servers, self.plan.target, partitions=PARTITIONS)
            for partition, (expected, got) in enumerate(zip(self.feeder.values, copied, strict=True)):
                told = differences(expected, got)
                found += [f"{self.plan.group}, partition {partition}: {difference}" for difference in told]
        else:
            read = {place for member in (*self.gone, *self.members) for place in member.reports.read}
            everything = {(partition, offset) for partition, end in enumerate(ends) for offset in range(end)}
            if lost := sorted(everything - read):
                found.append(f"{self.plan.group}: {len(lost)} records were read by nobody, {lost[0]} first")
        found += [
            f"our own client gave up: {member.last_words()}"
            for member in self.gave_up
            if member.library == OWN and not self._had_timed_out(member)
        ]
        return found

    def described(self) -> object:
        """Return the coordinator's description of the group."""
        try:
            with blocking.Admin(bootstrap_servers=self.server.bootstrap_servers) as admin:
                return admin.groups.describe(self.plan.group)
        except SemelError as error:
            return error

    def printed(self) -> str:
        return self.members[0].printed() if self.members else ""

    def _had_timed_out(self, member: MemberProcess) -> bool:
        """Whether a transaction of the member has timed out. It can happen on a busy machine; then the member's
        process must end and be started again, with a new producer."""
        return f"the transaction of {member.role.name} has timed out" in self.server.launch.output.read_text()

    def _wait_until_left(self, member: MemberProcess) -> None:
        try:
            member.wait()
        except TimeoutError:
            self.gave_up.append(member)  # ``wait`` has killed it. The others continue when its session has timed out.

    def _take(self, member: MemberProcess) -> None:
        self.members.remove(member)
        self.gone.append(member)

    def _at_least_one(self, besides: MemberProcess | None = None) -> None:
        if not [member for member in self.members if member is not besides]:
            self.start()


def _kill_broker(server: Server, groups: Sequence[_Group], chosen: random.Random) -> None:
    """Kill and restart the broker shortly before, during or after a rebalance of every group."""
    for group in groups:
        group.begin_rebalance(chosen)
    time.sleep(chosen.uniform(0.0, 1.5))
    server.kill()
    server.start()


def _catch_up(groups: Sequence[_Group], after: str, stuck_s_max: float) -> float:
    """Wait until every partition is read beyond its current end and every member has partitions.

    Return the seconds that it took. Raises TimeoutError if a partition makes no progress for too long before that, or
    if everything is read and a member has no partitions for too long.
    """
    started = time.monotonic()
    goals = [(group, group.goals()) for group in groups]
    is_read_since = started
    since: dict[tuple[int, int, int], float] = {}
    while True:
        now = time.monotonic()
        # For every partition that is not read: since when its committed offset has not changed.
        since = {
            (number, partition, offset): since.get((number, partition, offset), now)
            for number, (group, ends) in enumerate(goals)
            for partition, offset in group.unread(ends).items()
            if group.stands_still(partition, offset)
        }
        if any(group.unread(ends) for group, ends in goals):
            is_read_since = now
        elif all(group.is_shared() for group in groups):
            return now - started
        if now - min([is_read_since, *since.values()]) > stuck_s_max:
            raise TimeoutError(f"nothing for {stuck_s_max:.0f} s after {after}: {_stuck(goals)}")
        for group in groups:
            group.tend()
        time.sleep(0.02)


def _stuck(goals: Sequence[tuple[_Group, list[int]]]) -> str:
    told = []
    for group, ends in goals:
        behind = [number for number, end in enumerate(ends) if group.watch.offsets[number] < end]
        if behind:
            members = {one.role.name: (sorted(one.reports.assigned), one.reports.errors[-2:]) for one in group.members}
            leaving = [one.role.name for one in group.gone if one.exit_code is None]
            told.append(
                f"{group.plan.group} has not read partitions {behind}: members {members}, still leaving {leaving}, "
                f"to the broker {group.described()}; {group.printed()}"
            )
    return "; ".join(told)
