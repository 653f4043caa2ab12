"""SIGTERM ends ``semel serve`` in bounded time, whatever clients and disks do, and says how."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from tests.broker.raw_client import RawClient, batch, produce_request, values
from tests.cli.test_serve import serving

PATIENCE_S = 120  # For a machine with much else to do: the process itself sees to it that it ends within ten.


def test_clients_that_never_stop_asking_do_not_keep_a_broker_from_stopping(tmp_path: Path) -> None:
    """It has stopped cleanly, so it was not the deadline that ended it."""
    with serving(tmp_path) as (process, ready):
        asked = [threading.Event(), threading.Event()]

        def make_and_delete(number: int) -> None:
            name = f"topic-{number}"
            try:
                with RawClient(int(ready["port"])) as client:
                    while True:
                        topics = [CreatableTopic(name, 3, 1)]
                        client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
                        client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name]))
                        asked[number].set()
            except (OSError, EOFError, AssertionError):
                return  # The broker has closed the connection.

        threads = [threading.Thread(target=make_and_delete, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        assert all(event.wait(PATIENCE_S) for event in asked)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
        for thread in threads:
            thread.join(PATIENCE_S)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors


def test_a_removed_data_directory_is_said_and_does_not_keep_a_broker_from_stopping(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (process, ready):
        with RawClient(int(ready["port"])) as client:
            client.create_topic("t")
            client.produce("t", batch(b"x"))
        shutil.rmtree(tmp_path / "data")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "the next start recovers" in errors
    assert "cannot start" not in errors
    assert "Traceback" not in errors


def test_a_sync_that_hangs_ends_with_the_deadline_and_the_next_start_recovers(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.hanging_broker", str(tmp_path), "0", str(tmp_path / "hangs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        with RawClient(int(process.stdout.readline())) as client:
            client.create_topic("t")
            assert client.produce("t", batch(b"acknowledged")).error_code == 0
            (tmp_path / "hangs").touch()
            request = produce_request("t", batch(b"never acknowledged"), timeout_ms=100)
            (answer,) = client.call(ApiKey.PRODUCE, 9, request).responses[0].partition_responses
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "the next start recovers" in errors
    assert "Traceback" not in errors
    (tmp_path / "hangs").unlink()
    with serving(tmp_path) as (_, again), RawClient(int(again["port"])) as client:
        assert values(client.fetch("t", 0))[0] == (0, b"acknowledged")


LOOP_THAT_HANGS = """
import sys, time
from semel.cli.terminal.stop_signals import take_stop_signals, watch_stop_signals
take_stop_signals()
watch_stop_signals(lambda: print("told", flush=True), timeout_s=float(sys.argv[1]))
print("ready", flush=True)
time.sleep(10000)
"""


def ended(timeout_s: float, signals: int) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP_THAT_HANGS, str(timeout_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            assert process.stdout.readline() in ("told\n", "")
        _, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    return process.returncode, errors


def test_a_loop_that_hangs_ends_with_the_deadline() -> None:
    code, errors = ended(0.1, signals=1)
    assert (code, errors) == (1, "semel: not stopped within 0.1 s: ended as it was; the next start recovers\n")


def test_the_second_signal_ends_the_process_at_once() -> None:
    code, errors = ended(10_000, signals=2)
    assert (code, errors) == (1, "semel: told to stop twice: ended as it was; the next start recovers\n")
