"""What clients choose forges no line of the log, and no flood of requests becomes a flood of lines."""

from __future__ import annotations

import ast
import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import semel
from semel.broker.log_lines import (
    LINES_AT_ONCE_MAX,
    LINES_PER_SECOND,
    MESSAGE_CHARACTERS_MAX,
    LineFilter,
    escaped,
    guard_log_lines,
)
from semel.broker.requests.routes import served_apis
from semel.testing import Broker
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.longest_requests import requests
from tests.broker.raw_client import RawClient
from tests.broker.requests.test_longest_inputs import have_coordinators
from tests.properties.wire.message_strategies import legal_in

FORGED = "x\n2026-01-01 00:00:00,000 ERROR forged\r\x1b[2K\u2028\x85ERROR forged too"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What ``semel serve`` would write, and more: every level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("LINE %(levelname)s %(message)s"))
    logger = logging.getLogger("semel")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


@settings(deadline=None)
@given(st.text())
def test_an_escaped_text_is_one_line(text: str) -> None:
    line = escaped(text)

    assert line.isprintable()
    assert len(line.splitlines()) <= 1
    if text.isprintable() and len(text) <= MESSAGE_CHARACTERS_MAX:
        assert line == text


def test_a_long_text_is_cut() -> None:
    assert escaped("x" * 100_000) == "x" * 1000 + "... (99000 more characters)"


def test_a_traceback_with_a_line_break_in_its_message_forges_nothing(written: io.StringIO) -> None:
    guard_log_lines()
    try:
        raise KeyError("k") from ValueError(FORGED)
    except KeyError:
        logging.getLogger("semel.broker").exception("it failed for %s", FORGED)

    assert lines(written)[0].startswith("LINE ERROR it failed for x\\n2026")
    assert "KeyError: 'k'" in written.getvalue()
    assert all(line.startswith("    ") for line in lines(written)[1:])


def test_one_place_writes_a_few_lines_and_counts_the_others() -> None:
    line_filter = LineFilter()

    def passes(created: float, *, lineno: int = 1) -> logging.LogRecord | None:
        record = logging.LogRecord("semel.broker", logging.ERROR, "file.py", lineno, "bad %s", ("x",), None)
        record.created = created
        return record if line_filter.filter(record) else None

    assert sum(passes(100.0) is not None for _ in range(10_000)) == LINES_AT_ONCE_MAX
    assert passes(100.0, lineno=2) is not None, "another place has its own"
    later = passes(100.0 + 1.5 / LINES_PER_SECOND)
    assert later is not None
    assert later.getMessage() == f"bad x ({10_000 - LINES_AT_ONCE_MAX} more lines like this one were left out)"
    assert passes(100.0 + 1.5 / LINES_PER_SECOND) is None
    after_a_pause = [passes(1000.0) for _ in range(2)]
    assert [record is not None for record in after_a_pause] == [True, True]


def test_lines_about_files_are_not_limited() -> None:
    line_filter = LineFilter()
    for number in range(10 * LINES_AT_ONCE_MAX):
        record = logging.LogRecord("semel.log.recovery.loading", logging.WARNING, "file.py", 1, "%d", (number,), None)
        assert line_filter.filter(record)


def test_every_logger_of_the_broker_is_guarded() -> None:
    root = Path(semel.__file__).parent
    names = set()
    for package in ("broker", "coordinator", "log", "metadata", "net", "replication", "security", "wire"):
        for path in (root / package).rglob("*.py"):
            module = ".".join(("semel", *path.relative_to(root).with_suffix("").parts))
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and getattr(call.func, "attr", None) == "getLogger":
                    (name,) = call.args
                    names.add(name.value if isinstance(name, ast.Constant) else module)
    names.discard("semel.broker.log_lines")
    script = "import semel.broker.broker, semel.broker.log_lines as lines; print(*lines.guarded_loggers())"
    guarded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert names <= set(guarded), "a logger of a module that is imported later has to be named in log_lines.LOGGERS"


@pytest.mark.parametrize("api", served_apis(), ids=lambda api: api.name)
def test_no_name_that_a_client_chooses_begins_a_line(api: Api, written: io.StringIO) -> None:
    with Broker(group_initial_rebalance_delay_ms=0, auto_create_topics_enable=False) as broker:
        with RawClient(broker.port) as canary:
            canary.create_topic("known")
            have_coordinators(canary)
        for message in requests(api.request_class, "known", lambda: FORGED):
            with RawClient(broker.port) as client:
                version = api.max_version
                client.socket.sendall(encode_request(1, api, version, legal_in(message, version), client_id=FORGED))
                client.is_closed_by_broker(timeout_s=0.05)
        assert broker._broker is not None
        broker.clock.advance(hours=1)

    assert [line for line in lines(written) if not line.startswith(("LINE ", "    "))] == []


def test_ten_thousand_bad_requests_are_a_few_lines(written: io.StringIO) -> None:
    bad = [
        b"\0\0\0\x03abc",
        b"\xff\xff\xff\xff",
        bytes(encode_request(1, APIS[ApiKey.METADATA], 9, MetadataRequest(topics=None), client_id=FORGED))[:-2],
    ]
    with Broker(max_connection_creation_rate=100_000) as broker:
        assert broker._broker is not None
        metrics = broker._broker.metrics
        for number in range(10_000 // 200):
            clients = [RawClient(broker.port) for _ in range(200)]
            for client in clients:
                client.socket.sendall(bad[number % 2])
            for client in clients:
                assert client.is_closed_by_broker(timeout_s=60)
                client.socket.close()
        assert metrics.malformed.value == 10_000

    # Two minutes of the time that they take, at most.
    assert 0 < len(lines(written)) <= 1000
