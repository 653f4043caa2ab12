"""Fetched records come out the same as records and as rows, in whatever portions and however often one changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.client.arrow.tables import as_table, decode_rows
from semel.client.machine.consumer.fetched import FetchedRecords
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch
from semel.wire.messages.fetch import AbortedTransaction
from semel.wire.records import Codec, Record, build_batch
from tests.properties.wire.test_records_properties import deterministic

PLACE = TopicPartition("orders", 3)
ALL = 10**6

Taken = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

contents = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.binary(max_size=9) | st.none(), st.binary(max_size=9) | st.none()), min_size=1, max_size=9
        ),
        st.sampled_from([Codec.NONE, Codec.LZ4]),
        st.sampled_from(["plain", "aborted", "committed"]),
    ),
    min_size=1,
    max_size=6,
)


def fetched(
    contents: list[tuple[list[tuple[bytes | None, bytes | None]], Codec, str]], start: int, broken: int | None
) -> tuple[FetchedRecords, int]:
    """Batches as a broker might send them, one of them perhaps broken; and how many records they hold."""
    buffer, offset = bytearray(), 0
    aborted: list[AbortedTransaction] = []
    for number, (pairs, codec, kind) in enumerate(contents):
        records = [
            Record(offset + index, 1_000 + index, key, value, (("h", key),) if index % 3 == 0 else ())
            for index, (key, value) in enumerate(pairs)
        ]
        producer_id = -1 if kind == "plain" else number
        batch = bytearray(
            build_batch(
                records,
                base_offset=offset,
                codec=codec,
                partition_leader_epoch=number,
                producer_id=producer_id,
                producer_epoch=-1 if kind == "plain" else 0,
                base_sequence=-1 if kind == "plain" else 0,
                is_transactional=kind != "plain",
            )
        )
        if number == broken:
            batch[-1] ^= 0xFF
        buffer += batch
        if kind == "aborted":
            aborted.append(AbortedTransaction(producer_id, offset))
        offset += len(pairs)
        if kind != "plain":
            marker = EndTransactionMarker(committed=kind == "committed", coordinator_epoch=0)
            buffer += build_marker_batch(
                marker, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
            )
            offset += 1
    start = min(start, offset - 1)
    chunk = FetchedRecords(PLACE, 0, bytes(buffer), fetch_offset=start, aborted=aborted, check_crcs=True)
    return chunk, offset


def take_records(chunk: FetchedRecords, count: int) -> list[Taken]:
    return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in chunk.take(count)]


def take_rows(chunk: FetchedRecords, count: int) -> list[Taken]:
    rows = as_table([(PLACE, part) for part in chunk.take_rows(count, decode_rows)]).to_pylist()
    assert all((row["topic"], row["partition"], row["timestamp_type"]) == ("orders", 3, 0) for row in rows)
    if rows:
        assert chunk.taken_offset == rows[-1]["offset"]
    return [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in rows
    ]


@deterministic
@given(
    contents,
    st.integers(0, 40),
    st.none() | st.integers(0, 5),
    st.lists(st.tuples(st.booleans(), st.integers(1, 12)), max_size=12),
    st.booleans(),
)
def test_rows_and_records_are_the_same_however_they_are_taken(
    contents: list[tuple[list[tuple[bytes | None, bytes | None]], Codec, str]],
    start: int,
    broken: int | None,
    portions: list[tuple[bool, int]],
    rest_as_rows: bool,
) -> None:
    by_record, _ = fetched(contents, start, broken)
    expected = take_records(by_record, ALL)
    chunk, _ = fetched(contents, start, broken)
    found: list[Taken] = []
    for as_rows, count in portions:
        portion = (take_rows if as_rows else take_records)(chunk, count)
        assert len(portion) <= count
        found += portion
    found += (take_rows if rest_as_rows else take_records)(chunk, ALL)
    assert found == expected
    assert str(chunk.error) == str(by_record.error)
    assert not found or chunk.taken_epoch == by_record.taken_epoch
    assert chunk.next_offset == by_record.next_offset
