"""Open files: who gets how many, and what is refused before they run out."""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import subprocess
from pathlib import Path

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.raw_client import RawClient
from tests.broker.raw_client import batch as one_record
from tests.cli.test_serve import READY, command

PATIENCE_S = 120


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
