"""Open files: who gets how many, and what is refused before they run out."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from semel.broker.network.descriptors import RESERVE, Descriptors
from semel.errors import ErrorCode, StorageError
from semel.log.config import LogConfig
from semel.log.durability.checkpointing import prepare_checkpoint
from semel.testing.virtual.disk import VirtualDisk
from semel.wire.apis import ApiKey
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.raw_client import RawClient
from tests.broker.raw_client import batch as one_record
from tests.cli.test_serve import READY, command
from tests.logs import NOW_MS, append, batch, open_log, values
from tests.unit.log.recovery.test_recovery import carry_out

PATIENCE_S = 120


def test_without_a_limit_nothing_is_bounded() -> None:
    unlimited = Descriptors(None)
    unlimited.check(1_000_000)
    assert (unlimited.partitions_max(), unlimited.connections_max(10)) == (None, None)


@pytest.mark.parametrize("limit", [0, 100, 256, 1024, 20_000, 1_048_576])
def test_partitions_and_connections_share_what_the_reserve_leaves(limit: int) -> None:
    descriptors = Descriptors(limit)
    partitions = descriptors.partitions_max()
    assert partitions is not None
    connections = descriptors.connections_max(partitions)
    assert connections is not None
    assert partitions + connections + RESERVE <= max(limit, RESERVE + 16)


def test_too_many_partitions_for_a_start_say_what_to_do() -> None:
    with pytest.raises(StorageError, match=r"2000 partitions need 2080 open files.*may have 1024.*ulimit -n 2080.*"):
        Descriptors(1024).check(2000)


def test_closed_segments_hold_no_descriptor_and_can_be_read() -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=200))
    for number in range(50):
        append(log, batch(f"value {number}" + "x" * 50))
    assert len(log.segments) > 20
    carry_out(disk, prepare_checkpoint(log))
    assert disk.statistics.open_files == 1
    assert [offset for offset, _ in values(log)] == list(range(50))
    assert disk.statistics.open_files == 1
    again = open_log(disk, config=LogConfig(segment_bytes=200), recovery_point=50)
    del log
    assert disk.statistics.open_files == 1
    assert [offset for offset, _ in values(again)] == list(range(50))


def test_without_descriptors_a_closed_segment_is_refused_and_served_again_later() -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=200))
    for number in range(10):
        append(log, batch(f"value {number}" + "x" * 50))
    carry_out(disk, prepare_checkpoint(log))
    disk.descriptors_max = 0
    with pytest.raises(Exception, match="Too many open files"):
        values(log)
    assert log.offline is None
    disk.descriptors_max = None
    assert len(values(log)) == 10


def test_a_log_that_is_cut_back_to_a_closed_segment_goes_on_there() -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=200))
    for number in range(10):
        append(log, batch(f"value {number}" + "x" * 50))
    carry_out(disk, prepare_checkpoint(log))
    from semel.log.recovery.truncation import truncate_to

    truncate_to(disk, log, 3)
    assert append(log, batch("again"), now_ms=NOW_MS).base_offset == 3
    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3]


def limited(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def started(folder: Path, soft: int, hard: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("--data-dir", str(folder), "--listen", "127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: limited(soft, hard),
    )


def test_topics_and_connections_beyond_the_limit_are_refused_and_the_rest_is_served(tmp_path: Path) -> None:
    """The soft limit is raised to the hard one: with that of 100 this would fail at once."""
    process = started(tmp_path, 100, 300)
    try:
        assert process.stdout is not None
        ready = READY.fullmatch(process.stdout.readline())
        assert ready is not None
        with RawClient(int(ready["port"])) as client, contextlib.ExitStack() as strangers:
            request = CreateTopicsRequest(topics=[CreatableTopic("too-many", 178, 1), CreatableTopic("fits", 150, 1)])
            too_many, fits = client.call(ApiKey.CREATE_TOPICS, 7, request).topics
            assert (too_many.error_code, fits.error_code) == (ErrorCode.POLICY_VIOLATION, ErrorCode.NONE)
            assert "ulimit -n" in too_many.error_message
            assert "300" in too_many.error_message
            growing = CreatePartitionsRequest(topics=[CreatePartitionsTopic("fits", 200, None)], timeout_ms=1000)
            (grown,) = client.call(ApiKey.CREATE_PARTITIONS, 3, growing).results
            assert grown.error_code == ErrorCode.POLICY_VIOLATION
            for _ in range(400):
                strangers.enter_context(socket.create_connection(("127.0.0.1", int(ready["port"]))))
            for partition in range(150):
                assert client.produce("fits", one_record(b"x"), partition=partition).error_code == ErrorCode.NONE
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, "Traceback" in errors) == (0, False), errors
    finally:
        process.kill()
        process.communicate()
    again = started(tmp_path, 200, 200)
    _, errors = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 1
    assert "150 partitions need 230 open files, and this process may have 200" in errors
    assert "LimitNOFILE=230" in errors
