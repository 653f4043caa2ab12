"""The audit log: what is in a line, and that neither clients nor the disk can do harm by it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from semel.broker.security import audit as limits
from semel.broker.security.audit import Audit
from semel.broker.security.audit_file import AuditFile
from semel.log.disk import read_file
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.worker import VirtualWorker
from semel.wire.codes import AclOperation, AclResourceType

T = TypeVar("T")
PATH = "/audit.log"


class Times:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def now_ms(self) -> int:
        return int(self.at_ms)

    def monotonic_ms(self) -> float:
        return self.at_ms


class Bench:
    def __init__(self, *, size_bytes_max: int = 2**30, files_max: int = 3) -> None:
        self.disk = VirtualDisk()
        self.times = Times()
        self.worker = VirtualWorker(asyncio.get_running_loop(), Random(1))
        self.file = AuditFile(self.disk, PATH, size_bytes_max=size_bytes_max, files_max=files_max)
        self.audit = Audit(self.file, self.worker, self.times)

    def lines(self, path: str = PATH) -> list[dict[str, Any]]:
        return [json.loads(line) for line in read_file(self.disk, path).decode("ascii").splitlines()]

    def refuse(self, principal: str = "User:mallory", *, host: str = "10.0.0.7", name: str = "orders") -> None:
        self.audit.request_refused(principal, host, "Produce", AclOperation.WRITE, AclResourceType.TOPIC, name)

    async def written(self) -> list[dict[str, Any]]:
        await asyncio.sleep(1)  # Virtual time.
        return self.lines()


def simulated(scenario: Callable[[], Any]) -> Any:
    async def within(_: Simulation) -> Any:
        return await scenario()

    return run(within)


def test_a_line_says_when_who_from_where_what_and_the_verdict() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.times.at_ms = 1_700_000_000_123
        bench.audit.login_refused("10.0.0.7", mechanism="PLAIN", user="mallory", reason="wrong password")
        bench.refuse()
        bench.audit.changed("User:alice", "10.0.0.8", "CreateTopics", "CREATE", "TOPIC", "orders")
        time = "2023-11-14T22:13:20.123+00:00"
        mallory = {"principal": "User:mallory", "host": "10.0.0.7", "api": "Produce", "operation": "WRITE"}
        alice = {"principal": "User:alice", "host": "10.0.0.8", "api": "CreateTopics", "operation": "CREATE"}
        orders = {"resource_type": "TOPIC", "resource": "orders"}
        login = {"host": "10.0.0.7", "mechanism": "PLAIN", "user": "mallory", "reason": "wrong password"}
        assert await bench.written() == [
            {"time": time, "event": "login", "verdict": "refused", **login},
            {"time": time, "event": "request", "verdict": "refused", **mallory, **orders},
            {"time": time, "event": "change", "verdict": "allowed", **alice, **orders},
        ]

    simulated(scenario)


def test_a_name_cannot_forge_a_line_nor_be_as_long_as_it_likes() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.refuse(name="x\n{}\r\u2028" + "y" * 30_000)
        (line,) = await bench.written()
        assert line["resource"].startswith("x\n{}\r\u2028yyy")
        assert len(line["resource"]) == limits.NAME_CHARACTERS_MAX

    simulated(scenario)


def test_a_refused_client_writes_a_few_lines_and_the_next_says_how_many_were_left_out() -> None:
    async def scenario() -> None:
        bench = Bench()
        for _ in range(500):
            bench.refuse()
        bench.refuse("User:bob")
        bench.times.at_ms = 1500.0
        bench.refuse()
        written = await bench.written()
        assert len(written) == limits.REFUSED_AT_ONCE_MAX + 2
        assert [line.get("left_out") for line in written[-2:]] == [None, 500 - limits.REFUSED_AT_ONCE_MAX]
        assert written[-2]["principal"] == "User:bob"

    simulated(scenario)


def test_a_client_with_many_addresses_is_limited_by_what_all_may_write_and_changes_are_not() -> None:
    async def scenario() -> None:
        bench = Bench()
        for number in range(5000):
            bench.audit.login_refused(f"fd00::{number:x}", mechanism="PLAIN", user=None, reason="wrong password")
        for number in range(100):
            bench.audit.changed("User:alice", "::1", "CreateTopics", "CREATE", "TOPIC", f"t{number}")
        written = await bench.written()
        assert [line["event"] for line in written] == ["login"] * limits.ALL_REFUSED_AT_ONCE_MAX + ["change"] * 100
        bench.times.at_ms = 60_000.0
        bench.audit.login_refused("fd01::1", mechanism="PLAIN", user=None, reason="wrong password")
        assert (await bench.written())[-1]["left_out_of_all"] == 5000 - limits.ALL_REFUSED_AT_ONCE_MAX

    simulated(scenario)


def test_a_full_file_is_kept_under_a_number_and_the_oldest_goes() -> None:
    async def scenario() -> None:
        bench = Bench(size_bytes_max=400, files_max=3)
        for number in range(20):
            bench.audit.changed("User:alice", "::1", "CreateTopics", "CREATE", "TOPIC", f"t{number}")
            await asyncio.sleep(1)
        names = [name for name in bench.disk.list("/") if name.startswith("audit")]
        assert names == ["audit.log", "audit.log.1", "audit.log.2"]
        kept = [line["resource"] for name in reversed(names) for line in bench.lines(f"/{name}")]
        assert kept == [f"t{number}" for number in range(20 - len(kept), 20)]
        assert all(len(read_file(bench.disk, f"/{name}")) <= 400 for name in names)

    simulated(scenario)


def test_a_full_disk_loses_lines_and_the_next_one_says_how_many() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.refuse()
        await bench.written()
        bench.disk.capacity_bytes = len(read_file(bench.disk, PATH)) + 10
        for _ in range(3):
            bench.refuse()
            await asyncio.sleep(1)
        bench.disk.capacity_bytes = None
        bench.refuse(name="payments")
        written = await bench.written()
        assert [line.get("resource", line) for line in written] == [
            "orders",
            {"time": "1970-01-01T00:00:00.000+00:00", "event": "lost", "lines": 3},
            "payments",
        ]

    simulated(scenario)


def test_lines_that_wait_for_a_disk_that_hangs_are_bounded() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.worker.hangs = True
        for number in range(limits.WAITING_LINES_MAX + 100):
            bench.audit.changed("User:alice", "::1", "CreateTopics", "CREATE", "TOPIC", f"t{number}")
        bench.worker.hangs = False
        await bench.written()
        bench.audit.changed("User:alice", "::1", "DeleteTopics", "DELETE", "TOPIC", "t0")
        written = await bench.written()
        assert len(written) == limits.WAITING_LINES_MAX + 3, "one was handed over before the others waited"
        assert [line.get("lines") for line in written if line["event"] == "lost"] == [99]

    simulated(scenario)


def test_a_line_that_a_power_cut_left_in_part_does_not_spoil_the_next() -> None:
    async def scenario() -> None:
        bench = Bench()
        file = bench.disk.open(PATH, create=True)
        file.write(0, b'{"time": "20')
        bench.refuse()
        await asyncio.sleep(1)
        torn, whole = read_file(bench.disk, PATH).splitlines()
        assert torn == b'{"time": "20'
        assert json.loads(whole)["resource"] == "orders"

    simulated(scenario)


def test_what_waits_is_written_when_it_is_closed() -> None:
    async def scenario() -> None:
        bench = Bench()
        for number in range(50):
            bench.audit.changed("User:alice", "::1", "CreateTopics", "CREATE", "TOPIC", f"t{number}")
        await bench.audit.close()
        assert len(bench.lines()) == 50

    simulated(scenario)
