"""Apicurio Registry, unmodified, with its schemas in topics of the broker: what it has answered, it keeps.

Its journal is a topic, and the ids of schemas follow from the order of the records in it. Clients register schemas
while the broker is killed, and while the registry is killed with a registration in the journal that it has not
answered. Afterwards each schema has the id that was answered, no id means two schemas, and ``semel console`` decodes
the records that were written with them.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import fastavro
import pytest

from semel import blocking
from semel.console.app import Rules
from tests.clients.apicurio_registry import JOURNAL, ApicurioRegistry
from tests.console.visitor import Visitor, running_console
from tools.brokers import apache_kafka, semel
from tools.kafka_jars import REGISTRY_JAVA_MIN, SCHEMA_REGISTRY
from tools.load import create_topic
from tools.patience import PATIENCE_S, wait_until
from tools.server import Server, running

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("kafka", SCHEMA_REGISTRY, f"java-{REGISTRY_JAVA_MIN}"),
    pytest.mark.xdist_group("schema-registry"),
]

TOPIC = "orders"
CLIENTS = 4
SUBJECTS = 3
SCHEMAS_AT_ONCE = 24

Version = tuple[int, str, str]
"""The id of a schema, a subject that has it, and the schema."""


def subject_of(number: int) -> str:
    return f"orders-{number % SUBJECTS}-value"


def is_json(number: int) -> bool:
    """Whether the schema of this number is a JSON schema; the others are Avro's."""
    return number % SUBJECTS == 0


def schema_of(number: int) -> str:
    """A schema that no other number has."""
    if is_json(number):
        draft = "http://json-schema.org/draft-07/schema#"
        return json.dumps({"$schema": draft, "title": f"Order{number}", "type": "object"})
    return json.dumps({"type": "record", "name": f"Order{number}", "fields": [{"name": "number", "type": "long"}]})


def record_of(number: int, schema_id: int) -> bytes:
    """A value of its schema, in Confluent's wire format."""
    value = io.BytesIO()
    if is_json(number):
        value.write(json.dumps({"number": number}).encode())
    else:
        fastavro.schemaless_writer(value, fastavro.parse_schema(json.loads(schema_of(number))), {"number": number})
    return b"\x00" + schema_id.to_bytes(4, "big") + value.getvalue()


class Registrations:
    """Schemas that several clients register, each until it is answered, and with which they write a record then."""

    def __init__(self, registry: ApicurioRegistry, producer: blocking.Producer) -> None:
        self.answered: dict[int, int] = {}
        """The id that was answered for each number."""
        self.interrupted: set[int] = set()
        """The numbers whose registration was not answered, or with an error, and that were registered again."""
        self._registry = registry
        self._producer = producer
        self._clients = ThreadPoolExecutor(CLIENTS)
        self._begun: list[Future[None]] = []
        self._is_over = False

    def begin(self) -> None:
        """Let the clients register some more schemas."""
        first = len(self._begun)
        self._begun += [self._clients.submit(self._register, first + more) for more in range(SCHEMAS_AT_ONCE)]

    @property
    def waiting(self) -> int:
        return len(self._begun) - len(self.answered)

    def finish(self) -> None:
        """Wait until all of them are answered."""
        for one in self._begun:
            one.result()

    def close(self) -> None:
        self._is_over = True
        self._clients.shutdown(cancel_futures=True)

    def _register(self, number: int) -> None:
        wait_until(lambda: self._is_over or self._is_registered(number), self._registry.printed)

    def _is_registered(self, number: int) -> bool:
        # A registry that is not ready does not know yet what it has.
        if not self._registry.is_ready():
            return False
        kind = "JSON" if is_json(number) else "AVRO"
        try:
            schema_id = self._registry.register(subject_of(number), kind, schema_of(number))
        except OSError:
            self.interrupted.add(number)
            return False
        self.answered[number] = schema_id
        self._producer.send(TOPIC, record_of(number, schema_id)).result(PATIENCE_S)
        return True


class Journal:
    """What a consumer sees of the registry's journal."""

    def __init__(self, servers: str) -> None:
        self.consumer = blocking.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        self.consumer.assign([(JOURNAL, 0)])
        self._numbers: set[int] = set()
        self._keys: Counter[bytes | None] = Counter()

    def numbers(self) -> set[int]:
        """Those whose schema is in the journal."""
        self._read()
        return self._numbers

    def repeated(self) -> list[bytes | None]:
        """The keys that several records have: the registry gives each record a key of its own."""
        self._read()
        return [key for key, times in self._keys.items() if times > 1]

    def _read(self) -> None:
        (end,) = self.consumer.end_offsets([(JOURNAL, 0)]).values()
        while self.consumer.position((JOURNAL, 0)) < end:
            for record in self.consumer.poll(200):
                self._keys[record.key] += 1
                self._numbers.update(int(found) for found in re.findall(rb"Order(\d+)", record.value or b""))


@pytest.fixture(params=["semel", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    makers: dict[str, Callable[..., Server]] = {"semel": semel, "kafka": apache_kafka}
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with running(makers[request.param](tmp_path / "broker", settings=settings)) as server:
        create_topic(server.bootstrap_servers, TOPIC, partitions=1)
        yield server


def versions_of(registry: ApicurioRegistry) -> Iterator[Version]:
    """Every version of every subject. Confluent's API has no list of schemas by their ids."""
    for subject in registry.get("/subjects"):
        for version in registry.get(f"/subjects/{subject}/versions"):
            told = registry.get(f"/subjects/{subject}/versions/{version}")
            # The registry takes the spaces out of Avro's schemas.
            yield told["id"], subject, json.dumps(json.loads(told["schema"]))


def shown_records(port: int) -> list[str]:
    """What the console's pages say of the records of the topic, up to the first page that decodes none."""
    shown: list[str] = []
    visitor = Visitor(port)
    while True:
        page = visitor.get("/topic", name=TOPIC, partition=0, offset=len(shown))
        found = re.findall(r'\{ "number": \d+ \} (?:Avro|JSON), schema \d+', page.text)
        if not found:
            return sorted(shown)
        shown += found


def record_as_shown(number: int, schema_id: int) -> str:
    return f'{{ "number": {number} }} {"JSON" if is_json(number) else "Avro"}, schema {schema_id}'


def test_a_registration_that_was_answered_is_kept_though_the_registry_and_the_broker_are_killed(
    server: Server, tmp_path: Path
) -> None:
    registry = ApicurioRegistry(tmp_path / "registry", server.bootstrap_servers)
    lost_answers: set[int] = set()

    def is_paused_before_an_answer() -> bool:
        if not registrations.waiting:
            registrations.begin()
        registry.pause()
        lost_answers.update(number for number in journal.numbers() if number not in registrations.answered)
        if lost_answers:
            return True
        registry.resume()
        return False

    with ExitStack() as stack:
        producer = stack.enter_context(blocking.Producer(bootstrap_servers=server.bootstrap_servers))
        registrations = Registrations(registry, producer)
        stack.callback(registrations.close)
        stack.callback(registry.kill)
        registry.start()
        wait_until(registry.is_ready, registry.printed)
        journal = Journal(server.bootstrap_servers)
        stack.enter_context(journal.consumer)
        # Once is enough, unless all were answered before the kill.
        is_amid = False
        while not is_amid:
            registrations.begin()
            wait_until(lambda: registrations.waiting < SCHEMAS_AT_ONCE, registry.printed)
            server.kill()
            is_amid = registrations.waiting > 0
            server.start()
            registrations.finish()
        # Here, too: the answer may have been on its way when the registry was paused.
        while not lost_answers & registrations.interrupted:
            lost_answers.clear()
            wait_until(is_paused_before_an_answer, registry.printed)
            registry.kill()
            registry.start()
            wait_until(registry.is_ready, registry.printed)
            registrations.finish()
        answered = registrations.answered
        # A list, not a dict by id: an id that means two schemas is there twice.
        expected = [(schema_id, subject_of(number), schema_of(number)) for number, schema_id in answered.items()]
        assert sorted(versions_of(registry)) == sorted(expected)
        assert journal.repeated() == []
        settings = {"bootstrap_servers": server.bootstrap_servers}
        port = stack.enter_context(running_console(settings, Rules(schema_registry=registry.url)))
        shown = sorted(record_as_shown(number, schema_id) for number, schema_id in answered.items())
        # The console gives a registry three seconds for an answer, and asks one that was late again.
        wait_until(lambda: shown_records(port) == shown, lambda: f"{shown_records(port)}, not {shown}")
