"""``semel trace``: clients stay on the proxy, and what they say is told in the order of the wire."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from semel.blocking import Consumer, Producer
from semel.cli.commands import trace
from semel.cli.exits import Exit
from semel.cli.main import main
from semel.testing import Broker, Cluster, certificate
from semel.testing.tracing.proxy import Proxy
from semel.testing.tracing.wire_trace import WireEvent, WireEventKind, WireTrace
from semel.types import Address
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_response
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from tests.broker.raw_client import RawClient
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


def test_an_address_without_a_host_is_of_this_machine() -> None:
    with (
        Broker() as broker,
        tracing("--listen", ":0", "--to", f":{broker.port}") as (_, proxy),
        Producer(bootstrap_servers=f"127.0.0.1{proxy}") as producer,
    ):
        assert producer.send("invoices", b"1", partition=0).result(PATIENCE_S).offset == 0


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
    told = [event.text for event in events if event.kind is WireEventKind.ANSWER]
    assert not [text for text in told if any(address in text for address in brokers)]
    written = [event for event in events if event.api == "Produce" and event.kind is WireEventKind.ANSWER]
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
    assert [(event.kind, *event.errors) for event in events if event.api == "Produce"] == [
        (WireEventKind.REQUEST,),
        (WireEventKind.REQUEST_LOST,),
        (WireEventKind.REQUEST,),
        (WireEventKind.ANSWER_LOST,),
        (WireEventKind.REQUEST,),
        (WireEventKind.ANSWER, "NOT_LEADER_OR_FOLLOWER"),
        (WireEventKind.REQUEST,),
        (WireEventKind.HELD,),
        (WireEventKind.RELEASED,),
        (WireEventKind.ANSWER,),
    ]


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """Settings of a client with TLS, as a file. Its password is not the proxy's to use."""
    (tmp_path / "ca.pem").write_text(certificate.AUTHORITY)
    config = tmp_path / "client.properties"
    config.touch(mode=0o600)
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.location={tmp_path / 'ca.pem'}\nsasl.mechanism=PLAIN\n"
        "sasl.username=nobody\nsasl.password=unused\nlinger.ms=5\n"
    )
    return config


@pytest.mark.parametrize("clients_have_tls", [False, True])
def test_tls_ends_at_the_proxy_and_sasl_passes_through(trusted: Path, clients_have_tls: bool) -> None:
    (trusted.parent / "proxy.pem").write_text(certificate.PRIVATE_KEY + certificate.CERTIFICATE)
    arguments = ["--command-config", str(trusted), "--only", "Produce", "--only", "SaslAuthenticate"]
    with Broker(tls=True, users={"alice": "wonderland"}) as broker:
        security = dict(broker.client_security)
        if clients_have_tls:
            arguments += ["--certificate", str(trusted.parent / "proxy.pem")]
        else:
            security["security_protocol"] = "SASL_PLAINTEXT"
            del security["ssl_truststore_certificates"]
        with tracing("--to", broker.bootstrap_servers, *arguments) as (process, servers):
            with Producer(bootstrap_servers=servers, **security) as producer:  # type: ignore[arg-type]
                assert producer.send("orders", b"v", partition=0).result(PATIENCE_S).offset == 0
            process.terminate()
            printed, said = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said
    assert "< Produce v13 orders:0(offset=0)" in printed
    assert "> SaslAuthenticate" in printed
    assert "wonderland" not in printed


def test_a_broker_whose_certificate_is_not_trusted_is_said_once(trusted: Path) -> None:
    said: list[str] = []
    printer = trace._Printer(as_json=False, only=set(), without=frozenset())
    context = ssl.create_default_context()
    with Broker(tls=True) as broker:
        address = Address("localhost", broker.port)

        def unreachable(broker: Address, error: OSError) -> None:
            said.append(str(error))
            printer.unreachable(broker, error)

        with Proxy((address,), broker_tls=context, unreachable=unreachable) as proxy:
            for _ in range(2):
                with RawClient(int(proxy.bootstrap_servers.rpartition(":")[2])) as client:
                    assert client.is_closed_by_broker()
    assert len(said) == 2
    assert "certificate" in said[0]
    assert len(printer._unreachable) == 1


def test_a_leader_that_a_fetch_names_is_a_port_of_the_proxy() -> None:
    """As Apache Kafka answers from version 16 on (KIP-951); the records beside it stay as they are."""
    played = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[PartitionData(partition_index=3, records=b"records")])],
        node_endpoints=[NodeEndpoint(node_id=7, host="elsewhere.example.org", port=9092)],
    )
    api = APIS[ApiKey.FETCH]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection, connection.makefile("rb") as asked:
                for version in (15, 18):
                    asked.read(int.from_bytes(asked.read(4), "big"))
                    connection.sendall(encode_response(version, api, version, played))
                asked.read()

        broker = threading.Thread(target=answer)
        broker.start()
        found: list[Address] = []
        with (
            Proxy(
                (Address("127.0.0.1", listening.getsockname()[1]),), found=lambda broker, at: found.append(broker)
            ) as proxy,
            RawClient(int(proxy.bootstrap_servers.rpartition(":")[2])) as client,
        ):
            client._correlation_id = 14
            assert client.call(ApiKey.FETCH, 15, FetchRequest()).responses == played.responses
            client._correlation_id = 17
            told = client.call(ApiKey.FETCH, 18, FetchRequest())
        broker.join(PATIENCE_S)
    assert told.responses == played.responses
    (named,) = told.node_endpoints
    assert (named.node_id, named.host, named.port != 9092) == (7, "127.0.0.1", True)
    assert found[-1] == Address("elsewhere.example.org", 9092)


def test_fetch_is_offered_in_all_versions_that_the_broker_has() -> None:
    with Broker() as broker:
        with RawClient(broker.port) as client:
            offered = client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest()).api_keys
        with (
            Proxy((Address("localhost", broker.port),)) as proxy,
            RawClient(int(proxy.bootstrap_servers.rpartition(":")[2])) as client,
        ):
            assert client.call(ApiKey.API_VERSIONS, 4, ApiVersionsRequest()).api_keys == offered


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "here"], "--listen here: it takes the form HOST:PORT"),
        (["--to", "127.0.0.1:0"], "--to 127.0.0.1:0: it takes the form HOST:PORT, with a port from 1 to 65535"),
        (["--only", "Nothing"], "--only Nothing: there is no such API"),
        (["--certificate", "none.pem"], "--certificate none.pem cannot be used: No such file or directory"),
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
