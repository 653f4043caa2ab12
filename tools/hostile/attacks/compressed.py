"""Small batches that decompress to very many bytes: decompression bombs, and millions of records."""

from __future__ import annotations

from semel.wire.compression import Codec, compress
from tools.frames import varint
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import check_topic, on_every_way, produce
from tools.hostile.attacks.requests import produce_frame
from tools.hostile.batches import bombs, raw_batch, record, tiny_records

_BATCH_BYTES_MAX = 1_000_000


@attack
def bombs_to_a_plain_topic(context: AttackContext) -> None:
    _bombs(context)


@attack
def bombs_to_a_compacted_topic(context: AttackContext) -> None:
    _bombs(context, cleanup_policy="compact")


@attack
def bombs_to_a_topic_with_its_own_codec(context: AttackContext) -> None:
    _bombs(context, compression_type="lz4")


@attack
def bombs_that_are_one_record(context: AttackContext) -> None:
    """The decompressed block is one large record with the correct length: only its size is wrong."""
    topic = context.new_topic(partitions=2)
    size = context.times(120 * 2**20, least=2**20)
    body = b"\0\0\0" + varint(1) + b"k" + varint(size) + bytes(size) + b"\0"
    block = varint(len(body)) + body
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        batch = raw_batch(compress(codec, block), count=1, attributes=codec)
        for _, response in on_every_way(context, topic, batch):
            context.noted(response)
    check_topic(context, topic, partitions=2)


@attack
def bombs_side_by_side(context: AttackContext) -> None:
    """Sixteen connections send a bomb to the compacted topic each, before any is answered."""
    topic = context.new_topic(cleanup_policy="compact")
    codec, build = bombs(context.times(1000 * 2**20, least=2**20))["zstd"]
    batch = raw_batch(build()[:_BATCH_BYTES_MAX], count=1, attributes=codec)
    frame = produce_frame(topic, batch)
    clients = [context.connect() for _ in range(16)]
    try:
        for client in clients:
            client.send(frame)
        for client in clients:
            answer = client.receive()
            context.noted(answer if isinstance(answer, str) else "answered")
    finally:
        for client in clients:
            client.close()
    check_topic(context, topic)


@attack
def a_million_tiny_records(context: AttackContext) -> None:
    _tiny(context, context.times(1_000_000, least=1000), numbered=True)


@attack
def a_million_tiny_records_to_a_compacted_topic(context: AttackContext) -> None:
    _tiny(context, context.times(1_000_000, least=1000), numbered=True, cleanup_policy="compact")


@attack
def seven_million_equal_records(context: AttackContext) -> None:
    _tiny(context, context.times(7_000_000, least=1000), numbered=False)


@attack
def seven_million_equal_records_to_a_compacted_topic(context: AttackContext) -> None:
    _tiny(context, context.times(7_000_000, least=1000), numbered=False, cleanup_policy="compact")


@attack
def a_million_tiny_records_to_a_topic_with_a_time_limit(context: AttackContext) -> None:
    """For this topic the broker must find the lowest timestamp of the batch."""
    hour = str(3_600_000)
    _tiny(context, context.times(1_000_000, least=1000), numbered=True, message_timestamp_before_max_ms=hour)


@attack
def records_with_ten_million_headers(context: AttackContext) -> None:
    """One record with very many headers, of two bytes each."""
    count = context.times(10_000_000, least=1000)
    block = record(tail=varint(count) + b"\0\1" * count)
    for configs in ({}, {"cleanup_policy": "compact"}):
        topic = context.new_topic(partitions=1, max_message_bytes=str(30 * 2**20), **configs)
        for codec in (Codec.ZSTD, Codec.LZ4, Codec.NONE):
            with context.connect(timeout_s=40) as client:
                context.noted(
                    produce(client, topic, raw_batch(compress(codec, block), count=1, attributes=codec), version=7)
                )


def _bombs(context: AttackContext, **configs: str) -> None:
    topic = context.new_topic(partitions=2, **configs)
    for name, (codec, build) in bombs(context.times(2000 * 2**20, least=2**20)).items():
        batch = raw_batch(build()[:_BATCH_BYTES_MAX], count=1, attributes=codec)
        for way, response in on_every_way(context, topic, batch):
            context.must_refuse(f"a bomb, {name}, {len(batch)} bytes, {way}", response)
    check_topic(context, topic, partitions=2)


def _tiny(context: AttackContext, count: int, *, numbered: bool, **configs: str) -> None:
    topic = context.new_topic(partitions=1, max_message_bytes=str(20 * 2**20), **configs)
    block = tiny_records(count, numbered=numbered)
    for codec in (Codec.ZSTD, Codec.GZIP, Codec.NONE):
        if codec is Codec.NONE and len(block) > 19 * 2**20:
            continue
        batch = raw_batch(compress(codec, block), count=count, attributes=codec)
        with context.connect(timeout_s=40) as client:
            context.noted(produce(client, topic, batch))
