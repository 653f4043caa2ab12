"""A test for each class of CVE that brokers, Kafka before all, have had, and for what is Python's own.

Elsewhere: CVE-2017-12610, CVE-2024-56128 and CVE-2021-38153 (``tests/unit/security/test_sasl_server.py``),
CVE-2018-17196 and CVE-2018-1288 (``test_transactional_rights.py``, ``test_fetch_rights.py``), CVE-2024-27309
(``tests/properties/security/test_security_paths.py``); and that one large request does not hold up the others
(``tests/broker/requests/test_large_requests.py``, ``test_wide_requests.py``).
"""

from __future__ import annotations

import ast
import contextlib
import struct
import tomllib
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

import semel
from semel.broker.config.broker_config import BrokerConfig
from semel.broker.fetch.fetch_sessions import FetchSessions, targets_of
from semel.broker.requests.handlers import consumer_group_heartbeat, metadata
from semel.coordinator.group.consumer.reconciliation import reconciled
from semel.coordinator.group.consumer.records import AssignedPartition, CurrentAssignment, MemberState
from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError
from semel.errors import DecodeError, ErrorCode
from semel.log.config import LogConfig
from semel.settings import SettingError, SettingType, Update, declared_in
from semel.testing import Broker
from semel.testing.certificate import CERTIFICATE, PRIVATE_KEY
from semel.wire.apis import ApiKey
from semel.wire.codec import decoder
from semel.wire.messages.consumer_group_heartbeat import TopicPartitions
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests import memory
from tests.broker.raw_client import RawClient, batch
from tests.broker.requests.test_configs import BROKER, SET, TOPIC, describe, incremental, replace
from tests.executed_lines import lines_executed
from tools.hostile.batches import bombs, raw_batch

MEGABYTE = 2**20
SOURCE = Path(semel.__file__).parent


# Memory


def peak_bytes(work: Callable[[], None]) -> int:
    """The most that Python allocates in this process meanwhile: in the broker's thread, and in the test's."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_cve_2022_34917_a_frame_takes_no_memory_before_its_bytes_are_there(broker: Broker) -> None:
    """Twenty strangers promise 90 MB each. (That before a login they may promise 64 KiB is in test_authentication.)"""

    def promise() -> None:
        clients = [RawClient(broker.port) for _ in range(20)]
        for client in clients:
            client.socket.sendall(struct.pack(">i", 90 * MEGABYTE) + b"\0\0\0\x09" + bytes(50))
        with RawClient(broker.port) as honest:
            honest.create_topic("beside-promises")
        for client in clients:
            client.socket.close()

    # Far less; one of the twenty that got its memory would be 90 MB.
    assert peak_bytes(promise) < 60 * MEGABYTE


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x7f\xff\xff\xff", id="two thousand million topics"),
        pytest.param(b"\0\0\0\x01\x7f\xff", id="a name of 32 KB"),
    ],
)
def test_cve_2022_34917_a_length_is_compared_with_what_is_there_before_anything_is_made(
    broker: Broker, body: bytes
) -> None:
    with RawClient(broker.port) as client:
        client.send_frame(struct.pack(">hhih", ApiKey.METADATA, 4, 1, -1) + body)
        assert client.is_closed_by_broker()

    # In this thread alone: what others of this process allocate meanwhile does not count.
    decode = decoder(MetadataRequest, 4)

    def refuse() -> None:
        with pytest.raises(DecodeError):
            decode(memoryview(body), 0)

    refuse()
    assert memory.peak_bytes(refuse) < MEGABYTE


@pytest.mark.parametrize("bomb", sorted(bombs(0)))
def test_cve_2023_34455_a_bomb_is_refused_and_the_partition_beside_it_is_served(
    broker: Broker, name: str, bomb: str
) -> None:
    codec, build = bombs(150 * MEGABYTE)[bomb]
    hostile = raw_batch(build(), count=1, attributes=codec)
    with RawClient(broker.port) as client:
        client.create_topic(name, partitions=2)
        data = [PartitionProduceData(0, hostile), PartitionProduceData(1, batch(b"honest"))]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name, partition_data=data)])
        codes: list[int] = []

        def produce() -> None:
            answer = client.call(ApiKey.PRODUCE, 9, request)
            codes.extend(each.error_code for each in answer.responses[0].partition_responses)

        # A batch of a megabyte may unpack to 64 MB; these would hold 150 MB, or as much as their format can say.
        assert peak_bytes(produce) < 96 * MEGABYTE
    assert codes in ([code, ErrorCode.NONE] for code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD))


# Settings that come over the wire


INDIRECT = ("${file:/etc/passwd:root}", "${env:HOME}", "file:///etc/passwd", "https://mallory.example/keys")


def test_cve_2023_25194_no_setting_that_clients_may_alter_names_a_class_a_file_or_an_address() -> None:
    """CVE-2023-25194 (a login module), CVE-2025-27817 (an endpoint), CVE-2024-31141 (a provider of values): what a
    client may set is a number, a word of a list, or yes and no."""
    by_clients = [setting for setting in declared_in(BrokerConfig) if setting.update is not Update.READ_ONLY]
    by_clients += declared_in(LogConfig)
    assert len(by_clients) > 30
    for setting in by_clients:
        is_number = setting.type not in (SettingType.STRING, SettingType.LIST, SettingType.PASSWORD)
        assert is_number or setting.rule is not None, f"{setting.name} takes any text"
        assert setting.type is not SettingType.PASSWORD, setting.name
        for value in INDIRECT:
            with pytest.raises(SettingError, match=setting.name):
                setting.parse(value)


@pytest.mark.parametrize(
    "setting",
    [
        "authorizer.class.name",
        "audit.log.path",
        "listeners",
        "plain.sasl.jaas.config",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.keystore.location",
        "listener.name.plaintext.ssl.keystore.location",
        "metric.reporters",
        "config.providers",
        "log.dirs",
        "zookeeper.connect",
    ],
)
@pytest.mark.parametrize("resource", ["", "1"])
def test_cve_2025_27817_and_2024_31141_what_names_one_is_refused(
    client: RawClient, resource: str, setting: str
) -> None:
    for value in INDIRECT:
        for code, message in (
            incremental(client, BROKER, resource, (setting, SET, value)),
            replace(client, BROKER, resource, {setting: value}),
        ):
            assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG), message
            assert "root:" not in (message or "")


def test_nothing_that_is_received_or_configured_is_run() -> None:
    """No ``eval``, no ``pickle``, no module by a name that comes from elsewhere."""
    run = {"eval", "exec", "compile", "__import__"}
    # Decoders are generated, from the declarations of messages and from nothing else.
    generated = {"wire/source.py"}
    found = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("testing/"):
            continue  # Processes of one test, among themselves.
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                found += [f"{name}: {each}" for each in modules if each in {"pickle", "marshal", "shelve", "yaml"}]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in run:
                found += [] if name in generated else [f"{name}:{node.lineno}: {node.func.id}"]
    assert found == []


def test_a_broker_needs_three_libraries_and_no_more() -> None:
    """log4j and its like came with something else. Parts that need more are extras."""
    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    names = {text.split(">")[0].split(";")[0].strip() for text in project["dependencies"]}
    assert names == {"crc32c", "cramjam", "uvloop"}


SECRETS = ("a-password-of-carol", "a-password-of-the-key", "a-secret-that-is-sent")


@pytest.fixture
def with_secrets() -> Iterator[Broker]:
    with Broker(
        listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        sasl_enabled_mechanisms="PLAIN",
        plain_sasl_jaas_config=f'PlainLoginModule required user_carol="{SECRETS[0]}";',
        ssl_keystore_certificate_chain=CERTIFICATE,
        ssl_keystore_key=PRIVATE_KEY,
    ) as running:
        yield running


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_cve_2019_12399_no_secret_is_described_in_any_version(with_secrets: Broker, version: int) -> None:
    hidden = [setting.name for setting in declared_in(BrokerConfig) if setting.is_sensitive]
    assert {"plain.sasl.jaas.config", "ssl.keystore.key"} <= set(hidden)
    with RawClient(with_secrets.port) as client:
        for synonyms in (False, True):
            told = [describe(client, BROKER, "1", version=version, synonyms=synonyms)]
            told += [describe(client, BROKER, "1", name, version=version, synonyms=synonyms) for name in hidden]
            for entry in (entry for result in told for entry in result.configs):
                if entry.name in hidden:
                    assert (entry.is_sensitive, entry.value) == (True, None), entry.name
                    assert all(synonym.value is None for synonym in entry.synonyms or ())
            assert not any(secret in repr(told) for secret in (*SECRETS, PRIVATE_KEY.splitlines()[1]))


def test_cve_2019_12399_a_secret_that_is_sent_to_be_set_is_not_sent_back(
    with_secrets: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with RawClient(with_secrets.port) as client:
        for setting in [each.name for each in declared_in(BrokerConfig) if each.is_sensitive]:
            answers = [
                incremental(client, BROKER, "1", (setting, SET, SECRETS[2])),
                replace(client, BROKER, "1", {setting: SECRETS[2]}),
            ]
            assert all(code != ErrorCode.NONE for code, _ in answers)
            assert SECRETS[2] not in repr(answers)
    assert SECRETS[2] not in caplog.text


# What is Python's own

COLLIDING = 1000
FEW_LINES = 30 * COLLIDING


def of_one_hash(count: int) -> list[UUID]:
    """Python's hash of a number is its rest by 2**61 - 1, and a UUID's is that of its number: no secret is in it."""
    ids = [UUID(int=5 + number * (2**61 - 1)) for number in range(1, count + 1)]
    assert len(set(map(hash, ids))) == 1
    return ids


def test_hash_collisions_of_topic_ids_cost_a_fetch_session_nothing() -> None:
    topics = [FetchTopic(topic_id=each, partitions=[FetchPartition(0)]) for each in of_one_hash(COLLIDING)]
    forgotten = [ForgottenTopic(topic_id=topic.topic_id, partitions=[0]) for topic in topics]

    def fetch() -> None:
        sessions = FetchSessions(10, Random(1))
        targets = targets_of(FetchRequest(topics=topics))
        session = sessions.create(targets, privileged=False, uses_topic_ids=True, now_ms=0)
        assert session is not None
        assert len(session.targets) == COLLIDING
        session.update(FetchRequest(topics=topics, forgotten_topics_data=forgotten))
        assert not session.targets

    # Each id compared with all before it would be half a million lines.
    assert lines_executed(fetch, within="uuid.py") < FEW_LINES


def test_hash_collisions_of_topic_ids_cost_metadata_nothing() -> None:
    topics = [MetadataRequestTopic(topic_id=each, name=None) for each in of_one_hash(COLLIDING)]
    assert lines_executed(lambda: metadata._distinct(topics), within="uuid.py") < FEW_LINES
    assert list(metadata._distinct(topics + topics)) == topics


def test_hash_collisions_of_topic_ids_cost_a_heartbeat_nothing() -> None:
    claimed = [TopicPartitions(each, [0]) for each in of_one_hash(COLLIDING)]
    own = frozenset({AssignedPartition(UUID(int=7), 0)})
    current = CurrentAssignment("group", "member", 1, 0, MemberState.UNREVOKED_PARTITIONS, frozenset(), own)

    def beat() -> None:
        partitions = consumer_group_heartbeat._claimed(claimed)
        reconciled(current, target_epoch=2, target=frozenset(), owners={}, claimed=partitions)

    assert lines_executed(beat, within="uuid.py") < FEW_LINES


@pytest.mark.parametrize("pattern", ["(" * 20_000, "(" * 5000 + ")" * 5000, "[" * 20_000, "a|" * 20_000, "(?:" * 9999])
def test_recursion_a_pattern_that_is_nested_is_refused_or_read(pattern: str) -> None:
    with contextlib.suppress(RegexError):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+$", "(.*a){12}", "(a?){50}a{50}", "((a*)*)*b"])
def test_redos_a_pattern_takes_a_bounded_number_of_steps_for_each_character(pattern: str) -> None:
    work = []
    for length in (30, 60, 120, 240):
        regex = Regex(pattern)
        regex.matches("a" * length + "!")
        work.append(regex.work)
    assert work[3] <= 12 * work[0], work


def test_int_parsing_a_number_of_thirty_thousand_digits_is_refused_by_its_length(client: RawClient, name: str) -> None:
    topic = client.create_topic(name)
    for setting in ("retention.ms", "min.cleanable.dirty.ratio"):
        code, message = incremental(client, TOPIC, topic, (setting, SET, "9" * 32_000))
        assert code == ErrorCode.INVALID_CONFIG
        assert message is not None
