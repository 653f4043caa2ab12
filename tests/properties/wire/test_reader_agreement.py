"""The same batches, read by us, kafka-python and aiokafka: sound ones alike, mutated ones where both take them.

What was found, and stays so:

- We take, kafka-python refuses: a header's key that is not UTF-8. No broker checks it, so compaction must keep it.
- We refuse, kafka-python takes: an offset that does not follow, or is outside the batch; a length of -2 or less, which
  is taken for null.
- A record's attributes are one byte. kafka-python reads a varint, and from 0x80 on everything behind it is shifted.
- aiokafka's C code reads outside the block where a variable-length integer does not end, and the process dies: it gets
  sound batches only.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from semel.errors import DecodeError
from semel.wire.compression import Codec, compress, decompress
from semel.wire.records import HEADER_SIZE, Record, iterate_records, parse_header, verify_crc
from semel.wire.records.varint import VARINT_BITS, decode_unsigned
from tests.unit.wire.records.test_oracles import READERS, as_record
from tools.fuzz.mutation import mutated
from tools.fuzz.targets.record_batches import batch, sealed

SOUND = 40
MUTATED = 1500
SIZE_MAX = 2**20
STRICTER = re.compile(r"offset delta -?\d+|(key|value|header value|header key) length -\d+")


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("reader", READERS)
def test_sound_batches_are_read_alike(reader: str, codec: Codec) -> None:
    if (reader, codec) == ("kafka-python", Codec.SNAPPY):
        pytest.importorskip("snappy")
    random = Random(f"{reader} {codec}")
    for _ in range(SOUND):
        data = batch(codec, random)
        assert theirs(reader, data) == list(iterate_records(data))


def test_mutated_records_that_both_take_are_read_alike() -> None:
    random = Random(20261116)
    seen: Counter[str] = Counter()
    for _ in range(MUTATED):
        codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD))
        data = with_mutated_records(batch(codec, random), codec, random)
        seen[verdict(data)] += 1
    assert seen["alike"] > MUTATED // 10, seen
    assert seen["both refuse"] > MUTATED // 10, seen
    assert seen.keys() <= {"alike", "both refuse", "we are stricter", "they are stricter", "they are shifted"}, seen


def verdict(data: bytes) -> str:
    try:
        records, refusal = ours(data), ""
    except DecodeError as error:
        records, refusal = None, str(error)
    try:
        read, trouble = theirs("kafka-python", data), ""
    except Exception as error:
        read, trouble = None, str(error)
    if records is None and read is None:
        return "both refuse"
    if records is None:
        return "we are stricter" if STRICTER.search(refusal) else f"only we refuse: {refusal}"
    if has_wide_attributes(data):
        return "they are shifted"
    if read is None:
        return "they are stricter" if "UnicodeDecodeError" in trouble else f"only they refuse: {trouble}"
    return "alike" if records == read else f"{records} and {read}"


def ours(data: bytes) -> list[Record]:
    assert verify_crc(data, 0, parse_header(data))
    return list(iterate_records(data, size_max=SIZE_MAX))


def theirs(reader: str, data: bytes) -> list[Record]:
    read: Any = READERS[reader](bytearray(data))
    assert read.validate_crc()
    return [as_record(record) for record in read]


def with_mutated_records(data: bytes, codec: Codec, random: Random) -> bytes:
    """The header stays, and with it the number of records: they believe any number."""
    block = decompress(codec, data[HEADER_SIZE:], size_max=SIZE_MAX)
    return sealed(data[:HEADER_SIZE] + compress(codec, mutated(block, block[::-1], random)[: len(block) + 200]))


def has_wide_attributes(data: bytes) -> bool:
    block = decompress(parse_header(data).compression, data[HEADER_SIZE:], size_max=SIZE_MAX)
    position = 0
    while position < len(block):
        size, position = decode_unsigned(block, position, VARINT_BITS)
        if block[position] >= 0x80:
            return True
        position += size >> 1
    return False
