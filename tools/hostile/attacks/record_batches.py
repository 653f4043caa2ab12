"""Attacks with invalid batches: wrong header, framing of records, or codec. Apache Kafka refuses all of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from semel.wire.compression import Codec, compress
from tools.frames import varint
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import check_topic, in_transaction, on_every_way, produce, producer_of
from tools.hostile.attacks.transactions import TRANSACTIONAL
from tools.hostile.batches import raw_batch, record, records, sound_batch

_CONTROL = 0x20


@dataclass(frozen=True)
class Lie:
    what: str
    block: bytes
    count: int
    last_delta: int | None = None
    attributes: int = 0


HEADER_LIES = (
    Lie("no records", b"", 0, -1),
    Lie("no records, last delta 0", b"", 0, 0),
    Lie("no records, one inside", records(1), 0, -1),
    Lie("-30 records", records(3), -30, -31),
    Lie("-1 records", records(1), -1, -2),
    Lie("-1 records, last delta 0", records(1), -1, 0),
    Lie("least count", records(1), -(2**31), 2**31 - 1),
    Lie("last delta beyond the records", records(3), 3, 9),
    Lie("last delta before the records", records(3), 3, 0),
    Lie("last delta negative", records(3), 3, -1),
    Lie("a control batch", records(1), 1, attributes=_CONTROL),
    Lie("transactional without a producer", records(1), 1, attributes=TRANSACTIONAL),
    Lie("codec 5", records(1), 1, attributes=5),
    Lie("codec 7", records(1), 1, attributes=7),
)

FRAMING_LIES = (
    Lie("junk", bytes(range(256)), 3),
    Lie("zeros", bytes(100), 3),
    Lie("most records, one inside", records(1), 2**31 - 1),
    Lie("a million records, three inside", records(3), 1_000_000),
    Lie("one record more than the count", records(4), 3),
    Lie("one record less than the count", records(2), 3),
    Lie("bytes behind the last record", records(3) + b"\0", 3),
    Lie("the last record is cut off", records(3)[:-2], 3),
    Lie("a negative record length", varint(-5) + record()[1:], 1),
    Lie("a record length of 2 GB", varint(2**31 - 1) + record()[1:], 1),
    Lie("a record length too short by one", record(length_lie=-1), 1),
    Lie("a record length too long by one", record(length_lie=1) + b"\0", 1),
    Lie("a length that never ends", b"\xff" * 12, 1),
    Lie("a key beyond the record", varint(8) + b"\0\0\0" + varint(200) + b"kvvv", 1),
    Lie("a key length of -2", varint(7) + b"\0\0\0" + varint(-2) + varint(0) + b"\0\0", 1),
    Lie("a value length of -2", varint(6) + b"\0\0\0" + varint(-1) + varint(-2) + b"\0", 1),
    Lie("headers that are not there", record(tail=varint(1000)), 1),
    Lie("a negative number of headers", record(tail=varint(-3)), 1),
    Lie("two billion headers", record(tail=varint(2**31 - 1)), 1),
    Lie("a header without a key", record(tail=varint(1) + varint(-1) + varint(-1)), 1),
)

# Apache Kafka accepts these as they are or repairs them: both are correct, as long as readers can read them.
ODDITIES = (
    Lie("offset deltas all zero", records(1) * 3, 3),
    Lie("offset deltas backwards", record(delta=2) + record(delta=1) + record(delta=0), 3),
    Lie("an offset delta beyond the header's", record(delta=0) + record(delta=900), 2),
    Lie("a negative offset delta", record(delta=-4), 1),
    Lie("reserved attributes", records(1), 1, attributes=0x7F80),
    Lie("log append time", records(1), 1, attributes=0x08),
    Lie("a delete horizon", records(1), 1, attributes=0x40),
)


@attack
def headers_that_lie(context: AttackContext) -> None:
    _all_refused(context, HEADER_LIES)


@attack
def headers_that_lie_about_compressed_records(context: AttackContext) -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        plain = [lie for lie in HEADER_LIES if not lie.attributes]
        _all_refused(context, (_compressed(lie, codec) for lie in plain))


@attack
def headers_that_lie_in_transactions(context: AttackContext) -> None:
    topic = context.new_topic()
    for lie in HEADER_LIES:
        transactional_id = f"liar-{context.random.getrandbits(40)}"
        producer = (*producer_of(context, transactional_id), 0)
        attributes = lie.attributes | TRANSACTIONAL
        if lie.attributes == TRANSACTIONAL:
            producer = (-1, -1, -1)
        batch = raw_batch(
            lie.block, count=lie.count, last_delta=lie.last_delta, attributes=attributes, producer=producer
        )
        context.must_refuse(f"{lie.what}, in a transaction", in_transaction(context, topic, batch, transactional_id))
    check_topic(context, topic)


@attack
def producers_that_lie(context: AttackContext) -> None:
    topic = context.new_topic()
    producer_id, epoch = producer_of(context, None)
    for what, producer in (
        ("epoch -1", (producer_id, -1, 0)),
        ("sequence -1", (producer_id, epoch, -1)),
        ("least sequence", (producer_id, epoch, -(2**31))),
        ("least epoch", (producer_id, -(2**15), 0)),
        ("sequence from the middle", (producer_id, epoch, 77)),
    ):
        with context.connect() as client:
            batch = raw_batch(records(1), count=1, producer=producer)
            # A producer that is unknown to the partition may begin with any sequence, as in Apache Kafka.
            judge = context.noted if what == "sequence from the middle" else None
            response = produce(client, topic, batch)
            if judge is None:
                context.must_refuse(f"producer with {what}", response)
            else:
                judge(response)
    with context.connect() as client:
        response = produce(client, topic, raw_batch(records(2), count=2, producer=(producer_id + 1, 0, 2**31 - 1)))
        context.noted(response)
    check_topic(context, topic)


@attack
def records_that_lie(context: AttackContext) -> None:
    _all_refused(context, FRAMING_LIES)


@attack
def records_that_lie_in_compressed_batches(context: AttackContext) -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        _all_refused(context, (_compressed(lie, codec) for lie in FRAMING_LIES))


@attack
def records_that_lie_to_a_compacted_topic(context: AttackContext) -> None:
    _all_refused(context, FRAMING_LIES, cleanup_policy="compact")


@attack
def records_without_a_key_to_a_compacted_topic(context: AttackContext) -> None:
    topic = context.new_topic(partitions=2, cleanup_policy="compact")
    for codec in Codec:
        batch = sound_batch(b"a", b"b", key=None, codec=codec)
        for way, response in on_every_way(context, topic, batch):
            context.must_refuse(f"records without a key, {codec.name}, {way}", response)
    check_topic(context, topic, partitions=2)


@attack
def blocks_that_are_not_compressed(context: AttackContext) -> None:
    topic = context.new_topic(partitions=2)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        whole = compress(codec, records(50))
        blocks = {
            "junk": context.random.randbytes(300),
            "nothing": b"",
            "a cut block": whole[: len(whole) // 2],
            "a block and junk behind it": whole + b"junk",
            "plain records": records(50),
            "a flipped bit": _flipped(whole, len(whole) // 2),
            "another codec's block": compress(Codec.GZIP if codec != Codec.GZIP else Codec.LZ4, records(50)),
        }
        for what, block in blocks.items():
            for way, response in on_every_way(context, topic, raw_batch(block, count=50, attributes=codec)):
                if what == "a flipped bit" and codec in (Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
                    context.noted(response)  # The block has no checksum, so its content may still be valid records.
                else:
                    context.must_refuse(f"{what} as {codec.name}, {way}", response)
    check_topic(context, topic, partitions=2)


@attack
def batches_that_are_none(context: AttackContext) -> None:
    """Batches with a wrong magic, length or checksum; and more or less than one batch."""
    topic = context.new_topic(partitions=2)
    good = sound_batch(b"a")
    for what, batch in {
        "nothing": b"",
        "one byte": b"\0",
        "a header cut off": good[:40],
        "a batch cut off": good[:-1],
        "a byte too much": good + b"\0",
        "two batches": good + good,
        "magic 0": raw_batch(records(1), count=1, magic=0),
        "magic 1": raw_batch(records(1), count=1, magic=1),
        "magic 3": raw_batch(records(1), count=1, magic=3),
        "magic -1": raw_batch(records(1), count=1, magic=-1),
        "length too long": raw_batch(records(1), count=1, length_lie=1),
        "length too short": raw_batch(records(1), count=1, length_lie=-1),
        "length negative": raw_batch(records(1), count=1, length_lie=-2000),
        "length of 2 GB": good[:8] + struct.pack(">i", 2**31 - 1) + good[12:],
        "a wrong checksum": raw_batch(records(1), count=1, crc_lie=1),
    }.items():
        for way, response in on_every_way(context, topic, batch):
            context.must_refuse(f"{what}, {way}", response)
    check_topic(context, topic, partitions=2)


@attack
def odd_batches(context: AttackContext) -> None:
    topic = context.new_topic(partitions=2)
    for lie in ODDITIES:
        for codec in (Codec.NONE, Codec.ZSTD):
            odd = lie if codec is Codec.NONE else _compressed(lie, codec)
            for _, response in on_every_way(context, topic, _batch(odd)):
                context.noted(response)
    for timestamp, most in ((-(2**63), -1), (2**63 - 1, 2**63 - 1), (-1, -1), (0, 2**63 - 1), (2**62, 0)):
        batch = raw_batch(records(2), count=2, timestamp=timestamp, max_timestamp=most)
        for _, response in on_every_way(context, topic, batch):
            context.noted(response)
    for base_offset in (-(2**63), -1, 2**63 - 1):
        for _, response in on_every_way(context, topic, raw_batch(records(2), count=2, base_offset=base_offset)):
            context.noted(response)
    check_topic(context, topic, partitions=2)


def _all_refused(context: AttackContext, lies: Iterator[Lie] | tuple[Lie, ...], **configs: str) -> None:
    topic = context.new_topic(partitions=2, **configs)
    for lie in lies:
        for way, response in on_every_way(context, topic, _batch(lie)):
            context.must_refuse(f"{lie.what}, {way}", response)
    check_topic(context, topic, partitions=2)


def _batch(lie: Lie) -> bytes:
    return raw_batch(lie.block, count=lie.count, last_delta=lie.last_delta, attributes=lie.attributes)


def _compressed(lie: Lie, codec: Codec) -> Lie:
    block = compress(codec, lie.block)
    return Lie(f"{lie.what}, {codec.name}", block, lie.count, lie.last_delta, lie.attributes | codec)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
