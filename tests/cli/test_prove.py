"""``semel prove``: a program in any language, on a broker in memory or through a proxy in front of another one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.blocking import Admin, Producer
from semel.cli.exits import Exit
from semel.cli.main import main
from semel.testing import Broker
from tests.clients.own import planted_applications as planted
from tools.brokers import apache_kafka
from tools.patience import PATIENCE_S, wait_until
from tools.server import running

GIVEN = [{"topic": "orders", "value": value.decode()} for value in planted.GIVEN["orders"]]
EXPECT = [{"topic": "doubled", "value": int(value)} for value in planted.EXPECT["doubled"]]
"""Numbers, which are compared as JSON."""


class Prove:
    """Runs the command in a folder with the files of a proof."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys
        self.said = ""
        self.write("in.jsonl", GIVEN)
        self.write("out.jsonl", EXPECT)

    def write(self, name: str, lines: list[dict[str, Any]]) -> None:
        (self._folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def arguments(self, *options: str, program: list[str]) -> list[str]:
        files = ["--given", str(self._folder / "in.jsonl"), "--expect", str(self._folder / "out.jsonl")]
        return ["prove", *files, *options, "--", *program]

    def __call__(self, application: str, *options: str, exit_code: Exit = Exit.OK) -> str:
        """What it printed; ``said`` is what it wrote to standard error."""
        try:
            code = main(self.arguments(*options, program=[sys.executable, planted.__file__, application]))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        printed = self._capsys.readouterr()
        self.said = printed.err
        assert code == exit_code, printed.err
        assert "Traceback" not in printed.err
        return printed.out


@pytest.fixture
def prove(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Prove:
    return Prove(tmp_path, capsys)


def test_a_program_that_is_exactly_once_is_proven(prove: Prove) -> None:
    printed = prove("transactional_copy", "--scenario", "killed before EndTxn 1")
    assert printed.splitlines() == [
        "SCENARIO                                   OUTCOME  STRUCK  LIVES",
        "without faults                             right         0      1",
        "killed before EndTxn 1 reaches the broker  right         1      2",
        "Nothing lost and nothing doubled in 2 scenarios.",
    ]
    assert "killed before EndTxn 1 reaches the broker: right" in prove.said


def test_a_program_that_is_not_is_found_with_the_record_that_is_doubled(prove: Prove) -> None:
    printed = prove("commits_after_it_sends", "--first", "--scenario", "OffsetCommit", exit_code=Exit.FOUND)
    assert "killed before OffsetCommit 1 reaches the broker: wrong: doubled is wrong" in prove.said
    assert "Too many: b'0' x 1 (at partition" in prove.said
    assert "The program is not transactional" in printed
    assert "lost or doubled in 1 scenarios" in printed


def test_a_scenario_that_struck_nothing_is_a_failure(prove: Prove) -> None:
    """acks=0 has no answers after which it could be killed."""
    options = ("--scenario", "killed after Produce 1 is carried out")
    printed = prove("sends_without_acknowledgement", *options, exit_code=Exit.FAILED)
    assert "the application made no Produce request that could be struck" in prove.said
    assert "Not proven: 1 scenarios" in printed


def test_results_are_told_as_json(prove: Prove) -> None:
    told = json.loads(prove("commits_nothing", "--json", "--scenario", "started again", exit_code=Exit.FOUND))
    assert told["transactional"] is False
    assert [(one["outcome"], one["lives"]) for one in told["scenarios"]] == [("right", 1), ("wrong", 2)]


def test_through_a_proxy_another_broker_is_used_and_left_as_it_was(prove: Prove) -> None:
    with Broker(num_partitions=1, group_initial_rebalance_delay_ms=0) as broker:
        there = ("--bootstrap-server", broker.bootstrap_servers)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            scenarios = ("killed after EndTxn 1 is", "stopped before TxnOffsetCommit 1")
            prove("transactional_copy", *there, *(word for text in scenarios for word in ("--scenario", text)))
            assert prove.said.count(": right") == 3
            assert (admin.topics.list(), admin.groups.list()) == ({}, ())
            prove("commits_after_it_sends", *there, "--scenario", "killed before OffsetCommit", exit_code=Exit.FOUND)
            assert "Too many: b'" in prove.said
            assert (admin.topics.list(), admin.groups.list()) == ({}, ())


@pytest.mark.kafka
@pytest.mark.needs("kafka")
def test_through_a_proxy_a_program_is_proven_on_apache_kafka(prove: Prove, tmp_path: Path) -> None:
    with running(apache_kafka(tmp_path / "kafka")) as server:
        there = ("--bootstrap-server", f"127.0.0.1:{server.launch.port}")
        scenarios = ("killed after EndTxn 1 is", "killed before TxnOffsetCommit 1", "stopped before TxnOffsetCommit 1")
        prove("transactional_copy", *there, *(word for text in scenarios for word in ("--scenario", text)))
        assert prove.said.count(": right") == 4
        prove("commits_after_it_sends", *there, "--scenario", "killed before OffsetCommit", exit_code=Exit.FOUND)
        assert "Too many: b'" in prove.said


def test_no_broker_behind_the_proxy_is_said(prove: Prove) -> None:
    prove("transactional_copy", "--bootstrap-server", "127.0.0.1:1", exit_code=Exit.UNREACHABLE)
    assert "no broker answers at 127.0.0.1:1" in prove.said


def test_a_topic_that_is_there_already_is_not_touched(prove: Prove) -> None:
    with Broker(num_partitions=1) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"real")
        prove("transactional_copy", "--bootstrap-server", broker.bootstrap_servers, exit_code=Exit.USAGE)
        assert "orders: there already" in prove.said
        assert [record.value for record in broker.committed("orders")] == [b"real"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "it has no records"),
        ([{"value": "1"}], 'line 1 has no "topic"'),
        ([*GIVEN, {"topic": "orders", "offset": 1}], "line 9 has 'offset'; a record has a topic, a key and a value"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(prove: Prove, lines: list[dict[str, Any]], told: str) -> None:
    prove.write("in.jsonl", lines)
    prove("transactional_copy", exit_code=Exit.FAILED if lines else Exit.USAGE)
    assert told in prove.said


def test_a_program_that_is_not_there_is_refused(prove: Prove, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(prove.arguments(program=["no-such-program"]))
    assert ended.value.code == Exit.USAGE
    assert "no-such-program: there is no such program" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_proof_and_the_program(prove: Prove, tmp_path: Path, number: signal.Signals) -> None:
    program = "import os, signal, sys; print(os.getpid(), file=open(sys.argv[1] + '~', 'w'), flush=True); "
    program += "os.rename(sys.argv[1] + '~', sys.argv[1]); signal.pause()"
    started = tmp_path / "started"
    command = [sys.executable, "-m", "semel"]
    command += prove.arguments(program=[sys.executable, "-c", program, str(started)])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until(started.exists)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    wait_until(lambda: not _is_running(int(started.read_text())))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
