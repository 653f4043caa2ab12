"""``semel trace``: clients stay on the proxy, and what they say is told in the order of the wire."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from semel.blocking import Consumer, Producer
from semel.cli.exits import Exit
from semel.cli.main import main
from semel.client.config.common import Address
from semel.testing import Broker, Cluster
from semel.testing.tracing.proxy import Proxy
from semel.testing.tracing.wire_trace import Passage, WireEvent, WireTrace
from tools.patience import PATIENCE_S

_STANDS_FOR = re.compile(r"semel: (?P<proxy>\S+) stands for (?P<broker>\S+)\n")


@contextmanager
def tracing(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a process, and where clients reach it."""
    run = "import sys; from semel.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", run, "trace", "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = _STANDS_FOR.fullmatch(line)
        assert found is not None, line + process.stderr.read()
        yield process, found["proxy"]
    finally:
        process.kill()
        process.communicate()


def traced_transaction(broker: Broker, *arguments: str) -> str:
    """What the command prints of one transaction."""
    with tracing("--to", broker.bootstrap_servers, *arguments) as (process, servers):
        producer = Producer(bootstrap_servers=servers, transactional_id="billing", client_id="biller")
        with producer, producer.transaction():
            producer.send("invoices", b"1", partition=0)
        process.terminate()
        printed, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 143, said
    assert "Traceback" not in said
    return printed


def test_a_transaction_is_told_line_by_line() -> None:
    with Broker() as broker:
        lines = traced_transaction(broker, "--only", "Produce", "--only", "endtxn").splitlines()
    assert [re.sub(r"^\S+ \d+:", "", re.sub(r"  [\d.]+ ms$", "", line)) for line in lines] == [
        "biller > Produce v13 transactional_id=billing invoices:0(records=1 producer_id=0 epoch=0 sequence=0)",
        "biller < Produce v13 invoices:0(offset=0)",
        "biller > EndTxn v5 outcome=commit transactional_id=billing producer_id=0 epoch=0",
        "biller < EndTxn v5 producer_id=0 epoch=1",
    ]


def test_json_has_a_document_on_each_line_and_quiet_leaves_out_what_clients_do_by_themselves() -> None:
    with Broker() as broker:
        printed = traced_transaction(broker, "--json", "--quiet")
    events: list[dict[str, Any]] = [json.loads(line) for line in printed.splitlines()]
    assert {"Metadata", "ApiVersions"}.isdisjoint(event["api"] for event in events)
    asked = [event for event in events if event["passage"] == "request"]
    assert list(dict.fromkeys(event["api"] for event in asked)) == [
        "FindCoordinator",
        "InitProducerId",
        "Produce",
        "EndTxn",
    ]
    assert asked[-1]["fields"]["outcome"] == "commit"


def test_clients_stay_on_the_proxy_with_all_brokers_of_a_cluster() -> None:
    events: list[WireEvent] = []
    with Cluster(brokers=2, num_partitions=4, default_replication_factor=1) as cluster:
        first = cluster.brokers[1]
        with Proxy((Address("localhost", first.port),), observer=WireTrace(events.append)) as proxy:
            with Producer(bootstrap_servers=proxy.bootstrap_servers) as producer:
                for partition in range(4):
                    producer.send("orders", b"v", partition=partition)
            with Consumer(bootstrap_servers=proxy.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                consumer.assign([("orders", partition) for partition in range(4)])
                read = 0
                while read < 4:
                    read += len(consumer.poll(1000))
    brokers = {f":{broker.port})" for broker in cluster.brokers.values()}
    told = [event.text for event in events if event.passage is Passage.ANSWER]
    assert not [text for text in told if any(address in text for address in brokers)]
    written = [event for event in events if event.api == "Produce" and event.passage is Passage.ANSWER]
    assert sum(len(event.fields["written"]) for event in written) == 4
    assert len({event.connection for event in written}) == 2  # One for each leader.


def test_what_faults_make_of_a_message_is_told() -> None:
    events: list[WireEvent] = []
    with Broker() as broker:
        broker.faults.observer = WireTrace(events.append)
        broker.faults.drop_request("Produce")
        broker.faults.drop_response("Produce")
        broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER")
        held = broker.faults.hold("Produce")
        with Producer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=1) as producer:
            sent = producer.send("orders", b"v")
            held.wait(PATIENCE_S)
            held.release()
            assert sent.result(PATIENCE_S).offset == 0
    assert [(event.passage, *event.errors) for event in events if event.api == "Produce"] == [
        (Passage.REQUEST,),
        (Passage.REQUEST_LOST,),
        (Passage.REQUEST,),
        (Passage.ANSWER_LOST,),
        (Passage.REQUEST,),
        (Passage.ANSWER, "NOT_LEADER_OR_FOLLOWER"),
        (Passage.REQUEST,),
        (Passage.HELD,),
        (Passage.RELEASED,),
        (Passage.ANSWER,),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "here"], "--listen here: it takes the form HOST:PORT"),
        (["--to", "127.0.0.1:0"], "--to 127.0.0.1:0: it takes the form HOST:PORT, with a port from 1 to 65535"),
        (["--only", "Nothing"], "--only Nothing: there is no such API"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["trace", *arguments])
    assert ended.value.code == Exit.USAGE
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["trace", "--listen", f"127.0.0.1:{port}"]) == Exit.FAILED
    assert capsys.readouterr().err == f"semel: cannot listen: 127.0.0.1:{port} is in use by another process\n"
