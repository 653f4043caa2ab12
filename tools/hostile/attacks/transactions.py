"""Attacks with transactions: forged markers, very many transactional ids, and very many producers."""

from __future__ import annotations

import time

from semel.wire.apis import ApiKey
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tools.hostile.attack_connection import response_word
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import check_topic, in_transaction, producer_of
from tools.hostile.attacks.requests import frame_of, produce_frame
from tools.hostile.batches import raw_batch, records

TRANSACTIONAL = 0x10


@attack
def forged_markers(context: AttackContext) -> None:
    """Markers with huge coordinator epochs: the coordinator's own markers must still end the next transaction."""
    topic = context.new_topic()
    for epoch in (2**31 - 1, 1_000_000, 1, -1, -(2**31)):
        producer_id, producer_epoch = producer_of(context, "forged")
        mark(context, topic, producer_id, producer_epoch, epoch)
        mark(context, topic, 2**62, 2**15 - 1, epoch)
    producer_id, producer_epoch = producer_of(context, "forged")
    batch = raw_batch(records(1), count=1, attributes=TRANSACTIONAL, producer=(producer_id, producer_epoch, 0))
    response = in_transaction(context, topic, batch, "forged")
    if response_word(response) != "NONE":
        context.finding(f"a producer cannot go on after forged markers: {response_word(response)}")
        return
    with context.connect() as client:
        ended = client.ask(ApiKey.END_TXN, 5, EndTxnRequest("forged", producer_id, producer_epoch, True))
        if response_word(ended) != "NONE":
            context.finding(f"the transaction cannot be ended after forged markers: {response_word(ended)}")
        _await_stable(context, topic)
    check_topic(context, topic)


def mark(context: AttackContext, topic: str, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(topic, [0])],
        coordinator_epoch=coordinator_epoch,
    )
    with context.connect() as client:
        context.noted(client.ask(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker])))


def _await_stable(context: AttackContext, topic: str) -> None:
    """Wait until the last stable offset reaches the end of the log; it is a finding if it does not."""
    ends = (-1, -1)
    while not context.expired:
        ends = (_end(context, topic, isolation_level=0), _end(context, topic, isolation_level=1))
        if ends[0] == ends[1] and ends[0] > 0:
            return
        time.sleep(0.02)
    context.finding(f"the last stable offset of {topic} is {ends[1]}, and the log ends at {ends[0]}")


def _end(context: AttackContext, topic: str, *, isolation_level: int) -> int:
    topics = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])]
    with context.connect() as client:
        response = client.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, isolation_level, topics))
    if isinstance(response, str):
        return -1
    offset: int = response.topics[0].partitions[0].offset
    return offset


@attack
def twenty_thousand_transactional_ids(context: AttackContext) -> None:
    """Very many transactional ids, each of which is remembered for a week."""
    producer_of(context, "first-of-many")
    with context.connect() as client:
        for start in range(0, context.times(20_000, least=200), 100):
            if context.expired:
                break
            frames = (
                frame_of(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(f"id-{start + number}-{'x' * 200}", 60_000))
                for number in range(100)
            )
            client.send(b"".join(frames))
            for _ in range(100):
                answer = client.receive()
                context.answers[answer if isinstance(answer, str) else "answered"] += 1


@attack
def transactional_ids_of_32_kilobytes(context: AttackContext) -> None:
    producer_of(context, "first-of-long")
    for number in range(context.times(1_000, least=20)):
        if context.expired:
            break
        with context.connect() as client:
            text = f"{number}".ljust(32_767, "x")
            context.noted(client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(text, 60_000)))


@attack
def a_flood_of_producer_ids(context: AttackContext) -> None:
    frame = frame_of(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 0))
    with context.connect() as client:
        for _ in range(0, context.times(50_000, least=500), 500):
            if context.expired:
                break
            client.send(frame * 500)
            for _ in range(500):
                answer = client.receive()
                context.answers[answer if isinstance(answer, str) else "answered"] += 1


@attack
def a_hundred_thousand_producers_on_one_partition(context: AttackContext) -> None:
    """Producer ids that no broker has given out: any number is accepted, and remembered for a day."""
    topic = context.new_topic()
    with context.connect() as client:
        for start in range(0, context.times(100_000, least=500), 250):
            if context.expired:
                break
            frames = (
                produce_frame(topic, raw_batch(records(1), count=1, producer=(10_000_000 + start + number, 0, 0)))
                for number in range(250)
            )
            client.send(b"".join(frames))
            for _ in range(250):
                answer = client.receive()
                context.answers[answer if isinstance(answer, str) else "answered"] += 1
    check_topic(context, topic)


@attack
def transactions_left_open(context: AttackContext) -> None:
    """Records of transactions that are never ended, in many partitions."""
    topic = context.new_topic()
    for number in range(context.times(300, least=5)):
        if context.expired:
            break
        name = f"left-open-{number}"
        producer = (*producer_of(context, name), 0)
        batch = raw_batch(records(1), count=1, attributes=TRANSACTIONAL, producer=producer)
        context.noted(in_transaction(context, topic, batch, name))
    check_topic(context, topic)
