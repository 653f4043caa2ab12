"""Kafka's own client and tools on Semel: the Java producer, which speaks transactions V2, and TransactionsCommand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.brokers import run_java, semel
from tools.load import create_topic
from tools.server import Server, running

pytestmark = [pytest.mark.kafka, pytest.mark.needs("kafka")]

TOPIC = "orders"
TRANSACTIONAL_ID = "java"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A broker on which the Java producer has committed transactions."""
    with running(semel(tmp_path_factory.mktemp("semel"))) as server:
        create_topic(server.bootstrap_servers, TOPIC, partitions=3)
        arguments = ["--topic", TOPIC, "--num-records", "5000", "--record-size", "100", "--throughput", "10000"]
        arguments += ["--producer-props", f"bootstrap.servers={server.bootstrap_servers}"]
        arguments += ["--transactional-id", TRANSACTIONAL_ID, "--transaction-duration-ms", "20"]
        output = run_java("org.apache.kafka.tools.ProducerPerformance", arguments)
        assert "5000 records sent" in output
        yield server


def transactions(server: Server, *arguments: str) -> list[list[str]]:
    """The table that Kafka's tool prints, without its first row."""
    output = run_java(
        "org.apache.kafka.tools.TransactionsCommand", ["--bootstrap-server", server.bootstrap_servers, *arguments]
    )
    return [[cell.strip() for cell in line.split("\t")] for line in output.splitlines() if "\t" in line][1:]


def test_every_transaction_of_the_java_producer_had_its_own_epoch(server: Server) -> None:
    ((_, transactional_id, _, epoch, state, *_),) = transactions(
        server, "describe", "--transactional-id", TRANSACTIONAL_ID
    )
    assert (transactional_id, state) == (TRANSACTIONAL_ID, "CompleteCommit")
    assert int(epoch) >= 5, "transactions V2 raise the epoch with every end"


def test_kafkas_tool_lists_transactions_and_finds_none_that_hangs(server: Server) -> None:
    assert [row[0] for row in transactions(server, "list")] == [TRANSACTIONAL_ID]
    assert transactions(server, "find-hanging", "--broker-id", "1") == []
    ((_, _, _, _, _, open_since, *_),) = transactions(
        server, "describe-producers", "--topic", TOPIC, "--partition", "0"
    )
    assert open_since == "None"


def test_kafkas_tool_decodes_the_transaction_log(server: Server) -> None:
    files = [
        file for file in server.data_dir.glob("__transaction_state-*/00000000000000000000.log") if file.stat().st_size
    ]
    output = run_java(
        "org.apache.kafka.tools.DumpLogSegments", ["--transaction-log-decoder", "--files", ",".join(map(str, files))]
    )
    last = [line for line in output.splitlines() if f'"transactionalId":"{TRANSACTIONAL_ID}"' in line][-1]
    assert '"transactionStatus":4' in last, "CompleteCommit"
    assert '"clientTransactionVersion":2' in last


def test_everything_committed_is_read_by_kafkas_console_consumer(server: Server) -> None:
    count = 0
    for partition in range(3):
        arguments = ["--bootstrap-server", server.bootstrap_servers, "--topic", TOPIC, "--partition", str(partition)]
        arguments += ["--offset", "earliest", "--isolation-level", "read_committed", "--timeout-ms", "4000"]
        output = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments)
        count += sum(len(line) == 100 for line in output.splitlines())
    assert count == 5000
