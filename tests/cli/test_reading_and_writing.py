"""What a first try with ``produce``, ``consume`` and ``group`` shows, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from semel import blocking
from semel.cli.exits import Exit
from semel.testing import Broker
from tests.cli.conftest import Run
from tools.patience import PATIENCE_S


def written(run: Run, topic: str, *lines: str) -> None:
    run("produce", topic, "--partition", "0", stdin="".join(f"{line}\n" for line in lines).encode())


# Reading


def test_without_options_everything_that_is_there_is_shown(run: Run, topic: str) -> None:
    written(run, topic, "one", "two")

    assert run("consume", topic) == "one\ntwo\n"
    assert run.said == ""


def test_an_empty_topic_is_said_to_be_empty(run: Run, topic: str) -> None:
    assert run("consume", topic) == ""
    assert run.said == f"semel: nothing to show: {topic} has no records\n"


def test_records_before_the_start_are_mentioned(run: Run, topic: str) -> None:
    written(run, topic, "one")

    assert run("consume", topic, "--from", "end") == ""
    assert "--from beginning shows those before" in run.said


def test_records_of_an_open_transaction_are_the_reason_that_nothing_is_shown(
    run: Run, broker: Broker, topic: str
) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"open", partition=0).result()

        assert run("consume", topic) == ""
        assert "belongs to open transactions; --isolation read_uncommitted shows it" in run.said
        producer.abort()
    assert run("consume", topic) == ""
    assert "only control records and aborted ones there; --show-control shows them" in run.said


@pytest.mark.parametrize(
    ("format_name", "shown"),
    [
        ("hex", "00ff0a"),
        ("base64", b64encode(b"\x00\xff\n").decode()),
        ("{topic}|{partition}|{offset}\\t{key}", "TOPIC|0|0\tk"),
    ],
)
def test_formats(run: Run, broker: Broker, topic: str, format_name: str, shown: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"\x00\xff\n", key=b"k", partition=0).result()

    assert run("consume", topic, "--format", format_name) == shown.replace("TOPIC", topic) + "\n"


def test_raw_values_are_written_byte_by_byte(broker: Broker, run: Run, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"\x00\xff", partition=0).result()
    command = [sys.executable, "-m", "semel", "consume", topic, "--format", "raw"]
    command += ["--bootstrap-server", broker.bootstrap_servers]

    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\x00\xff\n"


@pytest.mark.parametrize("format_name", ["{nosuch}", "{", "plain", "{0}", "{key.__class__}"])
def test_a_format_that_is_none_is_refused(run: Run, topic: str, format_name: str) -> None:
    assert f"--format {format_name}" in run("consume", topic, "--format", format_name, exit_code=Exit.USAGE)


def test_what_is_skipped_is_counted(run: Run, broker: Broker, topic: str) -> None:
    written(run, topic, "0", "1", "2", "3")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets(topic, {(topic, 0): 1}).all()
        admin.partitions.delete_records({(topic, 0): 3}).all()

    assert run("consume", topic, "--from", "1", "--partition", "0") == "3\n"
    assert "2 offsets are skipped, it begins at 3" in run.said
    assert run("consume", topic, "--group", topic) == "3\n"
    assert f"{topic}:0: the committed offset 1 is not there, 2 offsets are skipped: it goes on at 3" in run.said


# Writing


def test_tombstones_and_tabs(run: Run, topic: str) -> None:
    options = ("--key-separator", "\\t", "--null-value", "NULL", "--partition", "0")
    run("produce", topic, *options, stdin=b"a\tone\na\tNULL\n")

    shown = [json.loads(line) for line in run("consume", topic, "--format", "json").splitlines()]
    assert [(record["key"], record["value"]) for record in shown] == [("a", "one"), ("a", None)]


def test_a_bad_line_says_how_many_were_written_before_it(run: Run, topic: str) -> None:
    bad = b'{"n": 1}\n{"n": 2}\noops\n{"n": 3}\n'
    produce = ("produce", topic, "--format", "json", "--partition", "0")

    said = run(*produce, stdin=bad, exit_code=Exit.FAILED)
    assert "line 3 is not JSON" in said
    assert "2 records before it were written" in said
    said = run(*produce, "--transaction", "1", stdin=bad, exit_code=Exit.FAILED)
    assert "2 records in the transactions before it were written" in said
    assert len(run("consume", topic).splitlines()) == 4


def test_atomic_writes_all_or_nothing(run: Run, topic: str) -> None:
    produce = ("produce", topic, "--format", "json", "--atomic", "--partition", "0")

    said = run(*produce, stdin=b'{"n": 1}\noops\n', exit_code=Exit.FAILED)
    assert "no records in the transactions before it were written" in said
    assert run("consume", topic) == ""
    run(*produce, stdin=b'{"n": 1}\n{"n": 2}\n')
    assert len(run("consume", topic).splitlines()) == 2


def test_a_transaction_of_no_records_is_refused(run: Run, topic: str) -> None:
    assert "--transaction 0: a transaction has at least one record" in run(
        "produce", topic, "--transaction", "0", exit_code=Exit.USAGE
    )


def test_a_partition_that_is_not_there_is_said_with_their_number(run: Run, topic: str) -> None:
    said = run("produce", topic, "--partition", "9", stdin=b"x\n", exit_code=Exit.NOT_FOUND)
    assert "has no partition 9; it has 2" in said


# Groups and settings


def test_a_group_whose_offset_is_out_of_range_is_described(run: Run, broker: Broker, topic: str) -> None:
    written(run, topic, "0", "1", "2")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets(topic, {(topic, 0): 1, (topic, 1): 0}).all()
        admin.partitions.delete_records({(topic, 0): 2}).all()

    described = run("group", "describe", topic)
    assert (
        "1 is out of range, before the first record, 2: a consumer goes on at 2 with auto.offset.reset=earliest, "
        in (described)
    )
    rows = json.loads(run("group", "describe", topic, "--json"))["offsets"]
    assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [(1, 3, None), (0, 0, 0)]


def test_a_state_and_a_setting_that_do_not_exist_are_refused(run: Run, topic: str) -> None:
    assert "invalid choice: 'Foo'" in run("group", "list", "--state", "Foo", exit_code=Exit.USAGE)
    alter = ("config", "alter", "--topic", topic, "--delete")
    said = run(*alter, "retention.m", exit_code=Exit.NOT_FOUND)
    assert "--delete retention.m: no such setting is there; did you mean retention.ms?" in said
    run(*alter, "retention.ms")


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_member_that_is_interrupted_commits_what_it_has_shown_and_leaves(
    run: Run, broker: Broker, topic: str, number: signal.Signals, tmp_path: Path
) -> None:
    group = f"{topic}-{int(number)}"
    written(run, topic, "one", "two")
    command = [sys.executable, "-m", "semel", "consume", topic, "--group", group, "--follow"]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, said) == (128 + number, "")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.groups.list_offsets(group)[topic, 0].offset == 2
        assert admin.groups.describe(group).members == ()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_any_command_that_is_interrupted_says_so_by_its_exit_code(
    run: Run, broker: Broker, topic: str, number: signal.Signals
) -> None:
    written(run, topic, "one")
    command = [sys.executable, "-m", "semel", "consume", topic, "--follow", "--from", "beginning"]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, said) == (128 + number, "")
