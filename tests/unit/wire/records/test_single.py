"""Batches of one record: the quick ways to build and to read them give what the thorough ways give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.types import INT64_MAX
from semel.wire.compression import Codec
from semel.wire.records import Record, build_batch, build_single, iterate_records, parse_header, read_single

OFFSETS = st.integers(0, INT64_MAX)
TEXTS = st.one_of(st.binary(max_size=200), st.integers(8000, 20_000).map(bytes))


@given(
    key=TEXTS,
    value=st.none() | TEXTS,
    timestamp=OFFSETS,
    place=st.fixed_dictionaries(
        {
            "base_offset": OFFSETS,
            "partition_leader_epoch": st.integers(-1, 2**31 - 1),
            "producer_id": st.integers(-1, INT64_MAX),
            "producer_epoch": st.integers(-1, 2**15 - 1),
            "is_transactional": st.booleans(),
            "is_control": st.booleans(),
        }
    ),
)
def test_one_record_is_built_as_a_batch_of_many_is(
    key: bytes, value: bytes | None, timestamp: int, place: dict[str, int]
) -> None:
    thorough = build_batch([Record(place["base_offset"], timestamp, key, value)], **place)  # type: ignore[arg-type]
    assert build_single(key, value, timestamp=timestamp, **place) == thorough  # type: ignore[arg-type]


@given(st.integers(0, 4000).map(bytes), st.integers(0, 4000).map(bytes))
def test_a_record_that_was_built_so_is_read_so(key: bytes, value: bytes) -> None:
    batch = b"before" + build_single(key, value, timestamp=7) + b"behind"
    assert read_single(batch, 6, parse_header(batch, 6)) == (key, value)


def test_what_a_quick_look_does_not_tell_is_left_to_a_thorough_one() -> None:
    records = [Record(0, 5, b"k", b"v"), Record(1, 5, b"k", b"v")]
    for batch in (
        build_single(b"k", None, timestamp=5),
        build_single(b"k", bytes(20_000), timestamp=5),
        build_single(b"k", b"v", timestamp=5, producer_id=1, is_transactional=True, is_control=True),
        build_batch(records),
        build_batch(records[:1], codec=Codec.GZIP),
        build_batch([Record(0, 5, b"k", b"v", (("h", b""),))]),
        build_batch([Record(0, 5, None, b"v")]),
        build_batch(records[1:]),
        build_batch(records[:1], last_offset_delta=3),
    ):
        assert read_single(batch, 0, parse_header(batch)) is None


@given(st.binary(max_size=20), st.binary(max_size=20), st.data())
def test_of_bytes_that_are_wrong_it_never_reads_what_is_not_there(
    key: bytes, value: bytes, data: st.DataObject
) -> None:
    batch = bytearray(build_single(key, value, timestamp=7))
    batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(batch)
    try:
        thorough = [(record.key, record.value) for record in iterate_records(damaged)]
    except DecodeError:
        thorough = []
    read = read_single(damaged, 0, parse_header(damaged))
    assert read is None or [read] == thorough
