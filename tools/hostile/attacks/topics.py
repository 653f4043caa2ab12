"""Attacks with topics: created and deleted without end, with too many partitions, with names at the limits."""

from __future__ import annotations

import threading

from semel.wire.apis import ApiKey
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tools.hostile.attack_connection import response_word
from tools.hostile.attack_context import Attack, AttackContext, add, attack
from tools.hostile.attacks.produced import check_topic, produce
from tools.hostile.batches import sound_batch


def _created(context: AttackContext, name: str, partitions: int, configs: dict[str, str] | None = None) -> str:
    settings = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name, partitions, 1, configs=settings)
    with context.connect(timeout_s=30) as client:
        return context.noted(client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([topic], timeout_ms=20_000)))


def _make_and_delete(context: AttackContext, name: str, times: int) -> None:
    with context.connect(timeout_s=30) as client:
        for _ in range(times):
            if context.expired:
                return
            topics = [CreatableTopic(f"{name}-{number}", 3, 1) for number in range(5)]
            made = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, timeout_ms=10_000))
            names = [topic.name for topic in topics]
            gone = client.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=names, timeout_ms=10_000))
            context.answers[response_word(made)] += 1
            context.answers[response_word(gone)] += 1
            if isinstance(made, str) or isinstance(gone, str):
                return


def _two_that_make_and_delete(context: AttackContext, times: int) -> None:
    threads = [
        threading.Thread(target=_make_and_delete, args=(context, f"loop-{number}", times)) for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


add(
    Attack(
        "topics-made-and-deleted-also-while-the-broker-stops",
        lambda context: _two_that_make_and_delete(context, context.times(60, least=3)),
        while_stopping=lambda context: _two_that_make_and_delete(context, 1_000_000),
    )
)


@attack
def topics_with_a_million_partitions(context: AttackContext) -> None:
    for partitions in (1_000_000, 2**31 - 1, -5, 0, -(2**31), 200_000):
        word = _created(context, f"huge-{partitions}", partitions)
        if word == "NONE":
            context.finding(f"a topic with {partitions} partitions was made")
    topic = context.new_topic()
    for count in (2**31 - 1, 1_000_000, 0, -1):
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count)], timeout_ms=10_000)
        with context.connect(timeout_s=30) as client:
            context.must_refuse(f"{count} partitions", client.ask(ApiKey.CREATE_PARTITIONS, 3, request))


@attack
def a_topic_with_as_many_partitions_as_are_allowed(context: AttackContext) -> None:
    """Each partition needs files. Topics that do not fit are refused when they are created."""
    for number in range(context.times(4)):
        _created(context, f"many-{number}", context.times(5_000, least=50))


@attack
def names_at_the_limits(context: AttackContext) -> None:
    for name in ("x" * 249, "." * 249, "a" * 250, "", ".", "..", "a/b", "../../etc/passwd", "a\0b", "é" * 100, "a b"):
        _created(context, name, 1)
    for name in ("x" * 249, "-" * 249, "_" * 200):
        _created(context, name, 2)
        with context.connect() as client:
            context.noted(produce(client, name, sound_batch(b"x")))
            context.noted(
                client.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000))
            )


@attack
def settings_at_the_limits(context: AttackContext) -> None:
    least, most = str(-(2**63)), str(2**63 - 1)
    for number, (key, value) in enumerate(
        [
            ("segment.bytes", "1"),
            ("segment.bytes", "14"),
            ("segment.ms", "1"),
            ("segment.index.bytes", "4"),
            ("index.interval.bytes", "0"),
            ("retention.bytes", "0"),
            ("retention.ms", "0"),
            ("retention.ms", least),
            ("max.message.bytes", "2147483647"),
            ("max.message.bytes", "-1"),
            ("flush.messages", "1"),
            ("min.cleanable.dirty.ratio", "1e400"),
            ("message.timestamp.before.max.ms", "0"),
            ("message.timestamp.after.max.ms", most),
            ("cleanup.policy", "compact,delete,compact"),
            ("no.such.setting", "1" * 30_000),
        ]
    ):
        name = f"edge-{number}"
        if _created(context, name, 1, {key: value}) == "NONE":
            with context.connect() as client:
                for _ in range(context.times(200, least=20)):
                    context.noted(produce(client, name, sound_batch(b"x" * 100)))


@attack
def records_deleted_without_end(context: AttackContext) -> None:
    topic = context.new_topic(segment_bytes=str(2**20))
    with context.connect() as client:
        for number in range(context.times(500, least=20)):
            if context.expired:
                break
            context.noted(produce(client, topic, sound_batch(b"x" * 100_000)))
            for offset in (number, -1, -2, 2**63 - 1, -(2**63)):
                partitions = [DeleteRecordsPartition(0, offset)]
                request = DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)], timeout_ms=5_000)
                if offset == -1 and number % 10:
                    continue
                context.noted(client.ask(ApiKey.DELETE_RECORDS, 2, request))


@attack
def offsets_looked_up_by_time(context: AttackContext) -> None:
    """Looking up a timestamp within a large batch takes a search in its records."""
    topic = context.new_topic(index_interval_bytes="2147483647")
    with context.connect() as client:
        for _ in range(context.times(100, least=5)):
            produce(client, topic, sound_batch(*[b"x" * 10] * 5_000))
    asked = [ListOffsetsPartition(0, timestamp=timestamp) for timestamp in (1, 2**62, -3, 1_700_000_000_000)]
    topics = [ListOffsetsTopic(topic, asked * context.times(50))]
    for _ in range(context.times(20, least=2)):
        if context.expired:
            break
        with context.connect(timeout_s=30) as client:
            context.noted(client.ask(ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=topics)))
    check_topic(context, topic)
