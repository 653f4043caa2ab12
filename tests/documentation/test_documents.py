"""What the documents tell people to type works: every command and every Python block of every page is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from semel.admin import AclBinding, AclOperation, AclPatternType, AclResourceType, ScramMechanism
from semel.blocking import Admin, Producer
from semel.cli.exits import Exit
from semel.cli.terminal.passwords import PASSWORD_VARIABLE
from semel.spark import pipeline
from semel.testing import Broker
from tests.documentation.blocks import ROOT, RUN, SHOWN, Block, blocks_of, documents
from tests.documentation.cast import make_topics, send_an_order, values_in
from tests.documentation.console import Console, in_this_place
from tests.documentation.scripts import Scripts
from tools.brokers import apache_kafka
from tools.server import running

REFERENCE = "docs/cli.md"

# Nothing hangs on a broker that is well; the command is understood, and says so.
EXIT_CODES = {"semel txn abort orders:0 --start-offset 1234": int(Exit.FAILED)}

# The same commands with less to do.
SHORTENED = {
    "semel bench": "semel bench --records 1000",
    "--records 1000 --records 1000000": "--records 1000",
    # bash runs the commands; what zsh makes of its script is tested beside the command.
    "source <(semel completion zsh)": "semel completion zsh",
    # A proof of few scenarios: tests/clients/own runs one of all.
    "--expect out.jsonl -- python": "--expect out.jsonl --scenario again -- python",
    "--scenario EndTxn": "--scenario 'killed before EndTxn 1'",
    "--bootstrap-server localhost:9092 -- python app.py": "--help",
    # They run until they are stopped, with Java, or ask machines that are not here: tests/cli/test_cluster.py.
    "semel cluster up": "semel cluster up --help",
    "status --data-dir semel-cluster": "status --help",
    "status --bootstrap-server 10.0.0.1:9092": "status --help",
    # It takes minutes, and Spark.
    "semel demo": "semel demo --help",
    # Where a machine keeps secrets; here it is the reader's folder.
    "/run/secrets/": "secret-of-",
    # It runs until it is stopped: tests/cli/test_trace.py.
    "semel trace": "semel trace --help",
    # There is no terminal for --step; tests/lab plays all scenes.
    "semel lab --scene 1 --step": "semel lab --scene 2",
    "semel lab --lang zh": "semel lab --lang zh --list",
    # Spark takes longer than all the others; tests/spark runs such files.
    "totals.toml": "--help",
}

RULES = (
    AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
    AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.WRITE),
    AclBinding(AclResourceType.TOPIC, "ord", "User:bob", AclOperation.READ, pattern_type=AclPatternType.PREFIXED),
)

USES_SPARK = "semel.spark"
FILE_NAME = re.compile(r"# (\w+\.properties)\n")


def runnable(document: str) -> list[Block]:
    return [block for block in blocks_of(document) if block.language in RUN and block.not_run is None]


def parameters() -> Iterator[object]:
    for document in documents():
        text = "".join(block.text for block in runnable(document))
        if text and document != REFERENCE:
            yield pytest.param(document, marks=needs(text), id=document)


def needs(text: str) -> list[pytest.MarkDecorator]:
    tools = {USES_SPARK: "java", "semel pipeline": "java"}
    tools |= {f"{command} ": command for command in ("curl", "jq", "kcat", "openssl")}
    marks = [pytest.mark.needs(tool) for word, tool in tools.items() if word in text]
    return [*marks, pytest.mark.xdist_group("spark")] if USES_SPARK in text else marks


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, with the files that documents speak of."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = {
    "pairs.txt": "ann:three apples\nbob:a pear\n",
    "orders.csv": "customer,amount\nann,3\nbob,1\n",
    "orders.jsonl": '{"customer": "ann", "amount": 3}\n{"customer": "bob", "amount": 1}\n',
    "in.jsonl": '{"topic": "orders", "value": "1"}\n{"topic": "orders", "value": "2"}\n',
    "out.jsonl": '{"topic": "doubled", "value": "2"}\n{"topic": "doubled", "value": "4"}\n',
    "app.py": (ROOT / "tests" / "clients" / "own" / "planted_applications.py")
    .read_text()
    .replace("sys.argv[1]", "'transactional_copy'"),
    "secret-of-alice": "a-long-password\n",
    "secret-of-admin": "another-password\n",
    "server.properties": "num.partitions=2\n",
    ".config/fish/completions/README": "the shell has made this folder\n",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2, group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture
def guarded() -> Iterator[Broker]:
    """With an authorizer and some rules, and a reader that may do everything."""
    settings = {"num_partitions": 2, "group_initial_rebalance_delay_ms": 0, "super_users": "User:ANONYMOUS"}
    with Broker(acls=RULES, **settings) as running:
        yield running


def addresses_of(broker: Broker) -> dict[str, str]:
    return dict.fromkeys(("127.0.0.1:9092", "localhost:9092"), broker.bootstrap_servers)


@pytest.mark.parametrize("document", documents())
def test_every_block_has_a_language_and_one_that_is_not_run_says_why(document: str) -> None:
    for block in blocks_of(document):
        assert block.language in RUN | SHOWN, f"{block}: {block.language} is neither run nor only shown"
        assert block.not_run is None or len(block.not_run.split()) >= 3, f"{block}: {block.not_run!r} is no reason"


@pytest.mark.parametrize("document", list(parameters()))
def test_what_a_document_says_works_in_the_order_in_which_it_says_it(
    document: str, broker: Broker, folder: Path, request: pytest.FixtureRequest
) -> None:
    addresses = addresses_of(broker)
    with ExitStack() as stack:
        other = stack.enter_context(Broker(group_initial_rebalance_delay_ms=0))
        console = stack.enter_context(Console(folder, addresses))
        addresses["kafka.example.org:9092"] = other.bootstrap_servers
        scripts = Scripts(folder, addresses, {"broker": broker})
        write_files(document, folder)
        for block in runnable(document):
            if USES_SPARK in block.text:
                scripts.names["spark"] = spark = request.getfixturevalue("spark")
                stack.callback(stop_queries, spark)
                if block.alone is None:
                    make_topics(addresses["127.0.0.1:9092"], "orders", "totals")
                    send_an_order(addresses["127.0.0.1:9092"])
            console.run(block) if block.language == "console" else scripts.run(block)


@pytest.mark.needs("java")
@pytest.mark.needs("postgres")
@pytest.mark.xdist_group("spark")
def test_the_recipe_for_postgres_keeps_a_table_of_the_latest_orders_without_those_that_were_cancelled(
    broker: Broker, folder: Path, spark: SparkSession
) -> None:
    import psycopg

    from tools.postgres import postgres_server

    (block,) = [block for block in blocks_of("docs/spark.md") if "import Postgres" in block.text]
    make_topics(broker.bootstrap_servers, "orders")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in ((b"1", b"an apple"), (b"1", b"two apples"), (b"2", b"a pear"), (b"2", None)):
            producer.send("orders", value, key).result()
    reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    reader = reader.option("kafka.group.id", "orders-table").option("startingOffsets", "earliest")
    names = {"orders": reader.option("subscribe", "orders").load(), "pipeline": pipeline}
    with postgres_server() as server, ExitStack() as stack:
        stack.callback(stop_queries, spark)
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE SCHEMA shop")
            connection.execute('CREATE TABLE shop.orders (id text PRIMARY KEY, body text, "offset" bigint)')
        in_this_test = {"host=db.example.org dbname=shop user=report": server.dsn}
        Scripts(folder, {**addresses_of(broker), **in_this_test}, names).run(block)
        (query,) = spark.streams.active
        query.processAllAvailable()
        with psycopg.connect(server.dsn) as connection:
            found = connection.execute("SELECT id, body FROM shop.orders").fetchall()
    assert found == [("1", "two apples")]


def write_files(document: str, folder: Path) -> None:
    """Those that the document shows: their first line is their name."""
    for block in blocks_of(document):
        if (named := FILE_NAME.match(block.text)) is not None:
            # Brokers listen where there is room; the console finds out where.
            (folder / named[1]).write_text(block.text.replace("127.0.0.1:9092", "127.0.0.1:0"))


@pytest.mark.kafka
@pytest.mark.needs("kafka")
@pytest.mark.parametrize("old", ["Semel", "Apache Kafka"])
def test_a_topic_and_its_group_move_to_apache_kafka_and_back(old: str, broker: Broker, folder: Path) -> None:
    (block,) = [block for block in runnable("docs/migration.md") if block.language == "python"]
    with running(apache_kafka(folder / "kafka")) as kafka:
        servers = [broker.bootstrap_servers, kafka.bootstrap_servers]
        source, target = servers if old == "Semel" else reversed(servers)
        Scripts(folder, {"kafka.example.org:9092": source, "127.0.0.1:9092": target}, {}).run(block)
        assert values_in(target, "orders") == [b"one", b"two", b"three"]
        with Admin(bootstrap_servers=target) as admin:
            (offset,) = admin.groups.list_offsets("billing").values()
    assert offset.offset == 2, "the group has read two records"


def stop_queries(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize(
    "block", [pytest.param(block, marks=needs(block.text), id=str(block.line)) for block in runnable(REFERENCE)]
)
def test_every_example_of_the_reference_works(
    block: Block, guarded: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = guarded
    monkeypatch.setenv(PASSWORD_VARIABLE, "a-long-password")  # There is no terminal to ask for it on.
    if "/var/lib/semel" in block.text:
        with Broker(folder / "var-lib-semel", num_partitions=1) as stopped:
            open_a_shop(stopped, folder)
    elif "topic create" not in block.text:
        open_a_shop(broker, folder)
    text = block.text
    for long, short in SHORTENED.items():
        text = text.replace(long, short)
    with Console(folder, addresses_of(broker), exit_codes=EXIT_CODES) as console:
        console.run(replace(block, text=text))


def open_a_shop(broker: Broker, folder: Path) -> None:
    """The topic, group and transactional id that the reference speaks of, with something in them."""
    job = (ROOT / "examples" / "totals.toml").read_text()
    (folder / "totals.toml").write_text(in_this_place(job, folder, addresses_of(broker)))
    pyarrow.parquet.write_table(pyarrow.table({"customer": ["ann", "bob"]}), folder / "orders.parquet")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.create("orders", partitions=4)
        admin.topics.create("totals", partitions=2)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            admin.users.upsert("alice", "a-password", mechanism=mechanism)
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="payments") as producer, producer.transaction():
        for number in range(2600):
            producer.send("orders", b"three apples", b"ann", partition=3 * (number % 2))
        producer.send_offsets({("orders", 0): 0}, "billing")
