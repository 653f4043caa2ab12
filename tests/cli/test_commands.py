"""The commands, as a person or a script runs them, on a real broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel import OffsetAndMetadata, blocking
from semel.cli.commands.completion import script
from semel.cli.exits import Exit
from semel.cli.main import COMMANDS, main, make_parser
from semel.cli.reference import reference
from semel.errors import KafkaError
from semel.testing import Broker
from tests.broker.raw_client import batch
from tests.cli.conftest import Run
from tools.patience import PATIENCE_S


def _json(text: str) -> Any:
    return json.loads(text)


def test_a_topic_is_made_shown_grown_and_deleted(run: Run) -> None:
    run("topic", "create", "grown", "--partitions", "2", "--config", "retention.ms=60000")
    assert "grown" in run("topic", "list")
    described = _json(run("topic", "describe", "grown", "--json"))
    assert described["configs"] == {"retention.ms": "60000"}
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1]
    run("topic", "add-partitions", "grown", "3")
    assert len(_json(run("topic", "describe", "grown", "--json"))["partitions"]) == 3
    run("topic", "delete", "grown")
    assert "grown" not in run("topic", "list")


def test_what_is_not_there_has_an_exit_code_of_its_own(run: Run) -> None:
    assert "nowhere" in run("topic", "describe", "nowhere", exit_code=Exit.NOT_FOUND)
    run("group", "describe", "nowhere", exit_code=Exit.NOT_FOUND)
    run("txn", "describe", "nowhere", exit_code=Exit.NOT_FOUND)
    run("consume", "nowhere", exit_code=Exit.NOT_FOUND)


@pytest.mark.parametrize("family", ["topic", "group"])
def test_what_cannot_be_deleted_fails_and_the_rest_is_gone(run: Run, broker: Broker, topic: str, family: str) -> None:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets(topic, {(topic, 0): 0}).all()
    assert "nowhere" in run(family, "delete", "nowhere", topic, exit_code=Exit.NOT_FOUND)
    assert topic not in run(family, "list")


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(run: Run, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in run("topic", "create", topic, exit_code=Exit.FAILED)
    assert _json(run("topic", "create", topic, "--if-not-exists", "--json"))["created"] is False


def test_no_broker_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["topic", "list", "--bootstrap-server", "127.0.0.1:1"]
    code = main([*arguments, "--command-property", "default.api.timeout.ms=300"])
    assert code == Exit.UNREACHABLE
    assert len(capsys.readouterr().err.strip().splitlines()) <= 3


def test_lines_are_written_and_read(run: Run, topic: str) -> None:
    run("produce", topic, "--key-separator", ":", "--partition", "0", stdin=b"a:one\nb:two\nthree\n")
    assert run("consume", topic, "--from", "beginning", "--format", "key-value") == "a\tone\nb\ttwo\n-\tthree\n"
    assert run("consume", topic, "--from", "1", "--partition", "0", "--max", "1") == "two\n"
    assert run("consume", topic, "--from", "end") == ""


def test_csv_json_and_parquet_become_records_with_keys(run: Run, topic: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "orders.csv").write_text("customer,amount\nann,3\nbob,4\n")
    (tmp_path / "orders.jsonl").write_text('{"customer": "cid", "amount": 5}\n')
    parquet.write_table(pyarrow.table({"customer": ["dan"], "amount": [6]}), tmp_path / "orders.parquet")
    for name in ("orders.csv", "orders.jsonl", "orders.parquet"):
        run("produce", topic, "--file", str(tmp_path / name), "--key-field", "customer", "--partition", "1")
    read = [_json(line) for line in run("consume", topic, "--from", "beginning", "--format", "json").splitlines()]
    assert [(record["key"], _json(record["value"])["amount"]) for record in read] == [
        ("ann", "3"),
        ("bob", "4"),
        ("cid", 5),
        ("dan", 6),
    ]


def test_a_file_with_a_broken_line_names_the_line_and_commits_nothing(run: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    assert "line 2 is not JSON" in run("produce", topic, "--file", str(path), "--transaction", exit_code=Exit.FAILED)
    assert run("consume", topic, "--from", "beginning") == ""


def test_transactions_of_n_records(run: Run, broker: Broker, topic: str) -> None:
    said = _json(run("produce", topic, "--transaction", "2", "--json", stdin=b"1\n2\n3\n4\n5\n"))
    assert (said["records"], said["transactions"]) == (5, 3)
    assert sorted(record.value or b"" for record in broker.committed(topic)) == [b"1", b"2", b"3", b"4", b"5"]


def test_consume_shows_control_records_and_marks_aborted_data(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
        producer.begin()
        producer.send(topic, b"dropped", partition=0).result(PATIENCE_S)
        producer.abort()
        producer.begin()
        producer.send(topic, b"open", partition=0).result(PATIENCE_S)
        arguments = ("consume", topic, "--from", "beginning", "--partition", "0", "--format", "json")
        seen = [
            _json(line) for line in run(*arguments, "--isolation", "read_uncommitted", "--show-control").splitlines()
        ]
        committed = [_json(line)["value"] for line in run(*arguments).splitlines()]
        producer.abort()
    assert [(record["kind"], record["value"], record.get("marker")) for record in seen] == [
        ("data", "kept", None),
        ("control", None, "commit"),
        ("aborted", "dropped", None),
        ("control", None, "abort"),
        ("open", "open", None),
    ]
    assert committed == ["kept"]


def test_internal_topics_are_decoded(run: Run, broker: Broker, topic: str) -> None:
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    with blocking.Producer(**servers, transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"value")
        producer.send_offsets({(topic, 0): OffsetAndMetadata(3)}, f"group-of-{topic}")
    states = run("consume", "__transaction_state", "--from", "beginning", "--format", "json")
    mine = [_json(line) for line in states.splitlines() if topic in line]
    # CompleteCommit follows when the markers are synced, which nobody waits for.
    assert {"Empty", "Ongoing", "PrepareCommit"} <= {record["value"]["state"] for record in mine}
    offsets = run("consume", "__consumer_offsets", "--from", "beginning", "--format", "json")
    (commit,) = [_json(line) for line in offsets.splitlines() if f"group-of-{topic}" in line]
    assert (commit["key"]["topic"], commit["key"]["partition"], commit["value"]["offset"]) == (topic, 0, 3)


def test_lag_is_zero_when_only_markers_and_aborted_records_remain(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"read", partition=0)
            producer.send_offsets({(topic, 0): OffsetAndMetadata(1)}, topic)
        producer.begin()
        producer.send(topic, b"aborted", partition=0).result(PATIENCE_S)
        producer.abort()
        (row,) = _json(run("group", "describe", topic, "--json"))["offsets"]
        assert (row["committed"], row["end"], row["lag"]) == (1, 4, 0)
        with producer.transaction():
            producer.send(topic, b"unread", partition=0)
        (row,) = _json(run("group", "describe", topic, "--json"))["offsets"]
        assert row["lag"] == 1


def test_a_group_goes_on_behind_the_last_record_that_was_shown(run: Run, topic: str) -> None:
    run("produce", topic, "--partition", "0", stdin=b"1\n2\n3\n4\n")
    consume = ("consume", topic, "--group", f"max-{topic}", "--from", "beginning")
    assert run(*consume, "--max", "3") == "1\n2\n3\n"
    assert run(*consume) == "4\n"


def test_a_member_of_a_group_does_not_wait_for_a_topic_that_is_not_there(run: Run) -> None:
    assert "nowhere" in run("consume", "nowhere", "--group", "waiting", exit_code=Exit.NOT_FOUND)


def test_offsets_are_reset_and_a_dry_run_changes_nothing(run: Run, broker: Broker, topic: str) -> None:
    run("produce", topic, "--partition", "0", stdin=b"1\n2\n3\n4\n")
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets(topic, {(topic, 0): 4}).all()
    reset = ("group", "reset-offsets", topic, "--json", "--partition", f"{topic}:0")
    assert _json(run(*reset, "--to-earliest", "--dry-run")) == [{"partition": f"{topic}:0", "from": 4, "to": 0}]
    assert _json(run(*reset, "--shift-by", "-1"))[0]["to"] == 3
    assert _json(run(*reset, "--to-offset", "2"))[0] == {"partition": f"{topic}:0", "from": 3, "to": 2}
    assert "has the offsets 0 to 4" in run(*reset, "--to-offset", "99", exit_code=Exit.USAGE)
    assert _json(run(*reset, "--to-datetime", "2000-01-01T00:00:00Z"))[0]["to"] == 0
    assert topic in run("group", "list")
    run("group", "delete", topic)
    assert topic not in run("group", "list")


def test_trace_tells_the_life_of_a_transactional_id(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"one", partition=0)
            producer.send_offsets({(topic, 0): OffsetAndMetadata(1)}, topic)
        producer.begin()
        producer.send(topic, b"two", partition=1).result(PATIENCE_S)
        found = _json(run("txn", "trace", topic, "--json"))
        text = run("txn", "trace", topic)
        producer.abort()
    assert found["state"] == "Ongoing"
    assert [event["state"] for event in found["events"]][-1] == "Ongoing"
    by_partition = {one["partition"]: one for one in found["written"]}
    assert (by_partition[f"{topic}:0"]["first_offset"], by_partition[f"{topic}:0"]["marker"]) == (0, "commit")
    assert (by_partition[f"{topic}:1"]["marker"], by_partition[f"{topic}:1"]["marker_offset"]) == ("open", None)
    assert any(one["groups"] == [topic] for one in found["written"])
    assert found["holds_up"] == [f"readers of {topic}:1: the last stable offset is 0, the end 1"]
    assert "holds up readers" in text


def test_transactions_are_listed_described_and_none_hangs(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"value", partition=0).result(PATIENCE_S)
        assert topic in run("txn", "list", "--state", "Ongoing")
        described = _json(run("txn", "describe", topic, "--json"))
        assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}:0"])
        producers = _json(run("producer", "list", f"{topic}:0", "--json"))
        assert producers[0]["open_since_offset"] == 0
        assert run("txn", "find-hanging") == "nothing hangs\n"
        producer.abort()


def test_terminate_aborts_what_is_open_and_fences_the_producer(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"value", partition=0).result(PATIENCE_S)
        ended = _json(run("txn", "terminate", topic, "--json"))
        assert (ended["terminated"], ended["state_before"]) == (topic, "Ongoing")
        assert _json(run("producer", "list", f"{topic}:0", "--json"))[0]["open_since_offset"] is None
        with pytest.raises(KafkaError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
            producer.commit()
        producer.close(timeout_ms=0)
    run("txn", "terminate", "nowhere", exit_code=Exit.NOT_FOUND)


def test_a_transaction_that_does_not_hang_is_aborted_only_by_force(run: Run, broker: Broker, topic: str) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.begin()
        producer.send(topic, b"value", partition=0).result(PATIENCE_S)
        (state,) = _json(run("producer", "list", f"{topic}:0", "--json"))
        by_producer = ("--producer-id", str(state["producer_id"]), "--producer-epoch", str(state["epoch"]))
        for which in (("--start-offset", "0"), by_producer):
            # Its coordinator knows it, however long it has been open.
            said = run("txn", "abort", f"{topic}:0", *which, "--max-transaction-timeout", "-1", exit_code=Exit.FAILED)
            assert "--force" in said
            assert f"{topic}:0" in said
        assert _json(run("producer", "list", f"{topic}:0", "--json"))[0]["open_since_offset"] == 0

        assert "aborted" in run("txn", "abort", f"{topic}:0", "--start-offset", "0", "--force")
        assert _json(run("producer", "list", f"{topic}:0", "--json"))[0]["open_since_offset"] is None
        producer.abort()


def test_a_transaction_that_hangs_is_aborted_without_force(run: Run, broker: Broker, topic: str) -> None:
    async def leave_open() -> None:
        """As an old broker could: past the coordinator, which knows nothing of it."""
        assert broker._broker is not None
        node = broker._broker.node
        partition = node.partitions.get(topic, 0)
        assert partition is not None
        records = batch(b"late", producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)
        partition.append(memoryview(bytearray(records)), now_ms=node.clock.now_ms())

    broker._call(leave_open())
    young = run("txn", "abort", f"{topic}:0", "--start-offset", "0", exit_code=Exit.FAILED)
    assert "transaction.max.timeout.ms" in young

    run("txn", "abort", f"{topic}:0", "--start-offset", "0", "--max-transaction-timeout", "-1")
    assert _json(run("producer", "list", f"{topic}:0", "--json"))[0]["open_since_offset"] is None


def test_settings_are_shown_and_changed(run: Run, topic: str) -> None:
    run("config", "alter", "--topic", topic, "--set", "retention.ms=1234")
    assert "1234" in run("config", "describe", "--topic", topic)
    run("config", "alter", "--topic", topic, "--delete", "retention.ms")
    assert run("config", "describe", "--topic", topic) == "all at their defaults\n"
    assert "retention.ms" in run("config", "describe", "--topic", topic, "--all")


def test_cluster_info_names_brokers_and_features(run: Run, broker: Broker) -> None:
    info = _json(run("cluster", "info", "--json"))
    assert info["brokers"][0]["address"] == broker.bootstrap_servers
    assert info["features"]["transaction.version"] == 2
    assert broker.bootstrap_servers in run("cluster", "info")


def test_bench_measures_writing_and_reading_and_leaves_no_topic(run: Run) -> None:
    rows = _json(run("bench", "--records", "500", "--transaction", "100", "--json"))
    assert [row["what"] for row in rows] == ["write, 100 per transaction", "read"]
    assert all(row["records_per_second"] > 0 for row in rows)
    assert "semel-bench" not in run("topic", "list")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_says_where_it_belongs(shell: str) -> None:
    first = script(shell, make_parser(["topic"])).partition("\n")[0]
    assert first.startswith("# Put this ")
    assert f"semel completion {shell}" in first


def _completions(line: str) -> list[str]:
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    setup = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
    code = f'{script("bash", make_parser())}\n{setup}; _semel; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_and_options() -> None:
    assert {"topic", "txn", "consume"} <= set(_completions("semel "))
    assert _completions("semel txn fi") == ["find-hanging"]
    assert _completions("semel topic create orders --part") == ["--partitions"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_taught_every_command(shell: str) -> None:
    text = script(shell, make_parser())
    assert all(word in text for word in ("find-hanging", "reset-offsets", "transactional-id"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "t", "--max", "0"),
        ("consume", "t", "--from", "yesterday"),
        ("produce", "t", "--transactional-id", "x"),
        ("produce", "t", "--file", "/nowhere"),
        ("config", "alter", "--topic", "t"),
        ("topic", "delete-records", "orders"),
        ("txn", "abort", "orders:0"),
        ("group", "reset-offsets", "g", "--to-earliest"),
        ("topic", "list", "--command-config", "/nowhere"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_two(run: Run, arguments: tuple[str, ...]) -> None:
    said = run(*arguments, exit_code=Exit.USAGE)
    assert said.startswith("semel: ")
    assert len(said.strip().splitlines()) == 1


def _parsers(parser: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, parser
    for action in parser._actions:
        if hasattr(action, "choices") and isinstance(action.choices, dict):
            for name, child in action.choices.items():
                yield from _parsers(child, (*path, name))


@pytest.mark.parametrize(
    ("path", "parser"), [pytest.param(*one, id=" ".join(one[0])) for one in _parsers(make_parser())]
)
def test_every_command_has_a_help_with_examples(path: tuple[str, ...], parser: Any) -> None:
    text = parser.format_help()
    if path:
        assert "examples:" in text
        assert f"semel {' '.join(path)}" in text


def _imported_commands(*arguments: str) -> set[str]:
    """The commands whose modules a fresh process has imported after it has run this one."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    code += "from semel.cli.main import main; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return {name for name in COMMANDS if f"semel.cli.commands.{name}" in ran.stderr.split()}


def test_a_command_does_not_import_the_others() -> None:
    assert _imported_commands("topic", "--help") == {"topic"}


@pytest.mark.parametrize("arguments", [("--help",), ("completion", "bash")])
def test_a_question_about_all_commands_imports_them_all(arguments: tuple[str, ...]) -> None:
    assert _imported_commands(*arguments) == set(COMMANDS)


def test_a_command_that_is_not_there_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topics", "list"])
    assert ended.value.code == Exit.USAGE
    assert set(COMMANDS) <= set(re.findall(r"\w+", capsys.readouterr().err))


def test_the_reference_says_what_the_commands_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert page.read_text() == reference(), "run python -m semel.cli.reference > docs/cli.md"
