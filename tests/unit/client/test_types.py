"""What a type checker says of programs: right ones pass, a misspelt setting and a wrong type are found.

One run of mypy for all of them. A line that is wrong ends in ``# error:`` and what must be said about it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from mypy import api

import semel
import semel.testing

ROOT = Path(__file__).parents[3]

RIGHT = '''
import asyncio
import json
from dataclasses import dataclass
from typing import Any, assert_type

from semel import Admin, Consumer, ConsumerRecord, Producer, RecordMetadata, blocking


@dataclass
class Order:
    amount: int


def order(data: bytes) -> Order:
    return Order(**json.loads(data))


async def plain() -> None:
    async with Consumer(bootstrap_servers="one:9092", group_id="g", max_poll_records=10) as consumer:
        assert_type(consumer, Consumer[bytes, bytes])
        consumer.subscribe(["orders"])
        async for record in consumer:
            assert_type(record, ConsumerRecord[bytes, bytes])
            assert_type(record.value, bytes | None)
        assert_type(await consumer.poll(1000), list[ConsumerRecord[bytes, bytes]])


async def deserialized() -> None:
    async with Consumer(
        bootstrap_servers=["one:9092", "two:9092"], key_deserializer=bytes.decode, value_deserializer=order
    ) as consumer:
        assert_type(consumer, Consumer[str, Order])
        async for record in consumer:
            assert_type(record.key, str | None)
            if record.value is not None:
                assert_type(record.value.amount, int)


def one_of_two() -> None:
    assert_type(Consumer(bootstrap_servers="one:9092", value_deserializer=order), Consumer[bytes, Order])
    assert_type(Consumer(bootstrap_servers="one:9092", key_deserializer=bytes.decode), Consumer[str, bytes])
    anything = Consumer(bootstrap_servers="one:9092", value_deserializer=json.loads)
    assert_type(anything, Consumer[bytes, Any])


def threads() -> None:
    with blocking.Consumer(bootstrap_servers="one:9092", value_deserializer=order) as consumer:
        assert_type(consumer, blocking.Consumer[bytes, Order])
        for record in consumer:
            assert_type(record, ConsumerRecord[bytes, Order])
        assert_type(consumer.poll(0), list[ConsumerRecord[bytes, Order]])
    with blocking.Producer(bootstrap_servers="one:9092", acks="all", linger_ms="20") as producer:
        assert_type(producer.send("orders", b"v").result(), RecordMetadata)
        with producer.transaction(consumer=consumer):
            pass
    with blocking.Admin(bootstrap_servers="one:9092", default_api_timeout_ms=5_000) as admin:
        admin.topics.list()


def bare(consumer: Consumer, record: ConsumerRecord) -> None:
    """Without parameters: of bytes."""
    assert_type(record.value, bytes | None)
    bare(Consumer(bootstrap_servers="one:9092"), record)


def from_elsewhere(settings: dict[str, Any], mode: str) -> None:
    Producer(**settings, acks=1, compression_type=mode, transactional_id=None)
    Consumer(**settings, auto_offset_reset=mode)
    Admin(**settings)
'''

WRONG = """
import time

from semel import Admin, Consumer, ConsumerRecord, Producer, blocking

SERVERS = "one:9092"

Producer(bootstrap_servers=SERVERS, ack=1)  # error: Unexpected keyword argument "ack"
Producer(bootstrap_servers=SERVERS, group_id="g")  # error: Unexpected keyword argument "group_id"
Producer(bootstrap_servers=SERVERS, linger_ms=1.5)  # error: "linger_ms" .* has incompatible type "float"
Producer(bootstrap_servers=9092)  # error: "bootstrap_servers" .* has incompatible type "int"
Producer()  # error: Missing named argument "bootstrap_servers"
Consumer(bootstrap_servers=SERVERS, group="g")  # error: Unexpected keyword argument "group"
Consumer(bootstrap_servers=SERVERS, group_id=7)  # error: "group_id" .* has incompatible type "int"
Consumer(bootstrap_servers=SERVERS, enable_auto_commit=0)  # error: "enable_auto_commit" .* incompatible type "int"
Admin(bootstrap_servers=SERVERS, acks=1)  # error: Unexpected keyword argument "acks"
blocking.Producer(bootstrap_servers=SERVERS, ack=1)  # error: Unexpected keyword argument "ack"
blocking.Consumer(bootstrap_servers=SERVERS, ack=1)  # error: Unexpected keyword argument "ack"
blocking.Admin(bootstrap_servers=SERVERS, ack=1)  # error: Unexpected keyword argument "ack"

producer = blocking.Producer(bootstrap_servers=SERVERS)
producer.send("orders", b"v", timestamp=time.time() * 1000)  # error: "timestamp" .* has incompatible type "float"
producer.send(b"orders", b"v")  # error: incompatible type "bytes"; expected "str"

consumer = blocking.Consumer(bootstrap_servers=SERVERS, value_deserializer=int)
wrong: blocking.Consumer[bytes, str] = consumer  # error: Incompatible types in assignment
for record in consumer:
    record.value.upper()  # error: has no attribute "upper"


def told(record: ConsumerRecord) -> int:
    return len(record.value)  # error: has incompatible type "bytes \\| None"
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says of each program, by file and line."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text(WRONG)
    options = ["--strict", "--no-error-summary", "--show-absolute-path", "--follow-imports=silent"]
    options += [
        f"--cache-dir={folder / 'cache'}",
        f"--python-executable={sys.executable}",
        f"--config-file={folder / 'mypy.ini'}",
    ]
    (folder / "mypy.ini").write_text(f"[mypy]\nmypy_path = {ROOT / 'src'}\nignore_missing_imports = true\n")
    output, errors, _ = api.run([*options, str(folder / "right.py"), str(folder / "wrong.py")])
    assert not errors, errors
    found: dict[str, dict[int, str]] = {"right.py": {}, "wrong.py": {}}
    for line in output.splitlines():
        match = re.match(r"(.*?):(\d+): (error|note): (.*)", line)
        assert match, line
        if match[3] == "error":
            found[Path(match[1]).name][int(match[2])] = match[4]
    return found


def test_right_programs_pass(said: dict[str, dict[int, str]]) -> None:
    assert said["right.py"] == {}


def test_every_mistake_is_found_and_nothing_else_is(said: dict[str, dict[int, str]]) -> None:
    expected = {
        number: line.split("# error: ")[1] for number, line in enumerate(WRONG.splitlines(), 1) if "# error: " in line
    }
    assert sorted(said["wrong.py"]) == sorted(expected)
    for number, text in expected.items():
        assert re.search(text, said["wrong.py"][number]), (number, said["wrong.py"][number])


@pytest.mark.parametrize("package", [semel, semel.testing])
def test_dir_shows_what_there_is(package: object) -> None:
    assert set(package.__all__) <= set(dir(package))  # type: ignore[attr-defined]
    for name in dir(package):
        getattr(package, name)


def test_dir_shows_what_was_not_used_yet() -> None:
    assert {"Admin", "Consumer", "Producer", "RecordMetadata"} <= set(dir(semel))
