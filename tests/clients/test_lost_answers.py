"""Answers to Produce are lost after the broker appended: an idempotent producer still leaves one copy, in order.

Scenarios 1, 2 and 6: the retry of a batch is recognised and answered with its first offset, with several batches under
way. Without idempotence the same loss must leave copies, or these tests would prove nothing.
"""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.libraries import Library, Record, Stored
from tests.clients.libraries.sending import Sending
from tests.clients.proxy import Proxy, Verdict, losing_produce_answers
from tools.frames import PRODUCE
from tools.patience import PATIENCE_S
from tools.server import Server

RECORDS = [Record(b"%d" % number) for number in range(60)]

# Which answers are lost, counted over all connections.
PATTERNS = {
    "every third": lambda n: n % 3 == 0,
    "five in a row": lambda n: 4 <= n <= 8,
}


def read_all(cluster: Server, topic: str, library: Library) -> list[Stored]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (end,) = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}).values()
    with library.reader(cluster.bootstrap_servers, topic, "earliest") as reader:
        return reader.read(end.result(timeout=PATIENCE_S).offset)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_scenario_1_cut_connections_leave_one_copy_of_every_record_in_order(
    cluster: Server, topic: str, library: Library, pattern: str
) -> None:
    verdict = losing_produce_answers(Verdict.CUT, PATTERNS[pattern])
    with Proxy(cluster.launch.port, verdict) as proxy:
        offsets = library.produce(proxy.bootstrap_servers, topic, RECORDS, Sending(idempotent=True, in_batches_of=4))
        lost = proxy.verdicts[PRODUCE, Verdict.CUT]
    assert lost > 0
    assert [stored.record.value for stored in read_all(cluster, topic, library)] == [r.value for r in RECORDS]
    assert offsets == list(range(len(RECORDS)))


def test_scenario_1_a_stalled_connection_leaves_one_copy_of_every_record_in_order(
    cluster: Server, topic: str, library: Library
) -> None:
    verdict = losing_produce_answers(Verdict.STALL, lambda n: n == 2)
    with Proxy(cluster.launch.port, verdict) as proxy:
        offsets = library.produce(
            proxy.bootstrap_servers, topic, RECORDS, Sending(idempotent=True, in_batches_of=4, request_timeout_ms=500)
        )
        lost = proxy.verdicts[PRODUCE, Verdict.STALL]
    assert lost > 0
    assert [stored.record.value for stored in read_all(cluster, topic, library)] == [r.value for r in RECORDS]
    assert offsets == list(range(len(RECORDS)))


def test_without_idempotence_a_lost_answer_leaves_copies(cluster: Server, topic: str, library: Library) -> None:
    verdict = losing_produce_answers(Verdict.CUT, lambda n: n == 1)
    with Proxy(cluster.launch.port, verdict) as proxy:
        library.produce(proxy.bootstrap_servers, topic, RECORDS)
    found = [stored.record.value for stored in read_all(cluster, topic, library)]
    assert len(found) > len(RECORDS)
    assert set(found) == {record.value for record in RECORDS}
