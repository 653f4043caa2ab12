"""One of the embedded store's files: cut or damaged anywhere, it is read as far as it is sound, and says how far."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.metadata.change_file import HEADER, Contents, Entry, Record, encode, read, snapshot
from semel.metadata.store import Versioned
from semel.wire.crc import crc32c

RECORDS = [
    Record(1, (Entry("/a", Versioned(b"one", 1)), Entry("/b", Versioned(b"", 1)))),
    Record(2, (Entry("/a", Versioned(b"two", 2)),)),
    Record(5, (Entry("/b", None), Entry("/ü", Versioned(bytes(range(256)), 5)))),
    Record(6, (Entry("/a", None),)),
]


def values_after(records: Sequence[Record]) -> dict[str, Versioned]:
    values: dict[str, Versioned] = {}
    for record in records:
        for entry in record.entries:
            if entry.written is None:
                values.pop(entry.path, None)
            else:
                values[entry.path] = entry.written
    return values


def file_of(records: Sequence[Record]) -> bytes:
    return HEADER + b"".join(map(encode, records))


def test_a_file_cut_at_any_byte_holds_the_commits_that_are_whole() -> None:
    ends = [len(file_of(RECORDS[:count])) for count in range(len(RECORDS) + 1)]
    whole = file_of(RECORDS)
    for size in range(len(HEADER), len(whole) + 1):
        survivors = [record for record, end in zip(RECORDS, ends[1:], strict=True) if end <= size]
        contents = read(whole[:size])
        assert contents.values == values_after(survivors)
        assert contents.size_bytes == ends[len(survivors)]
        assert contents.sequence == (survivors[-1].sequence if survivors else 0)


@pytest.mark.parametrize(
    "rest", [b"\0" * 5000, b"\xff" * 100, b"\0\0\0\x20" + b"x" * 60], ids=["zeros", "ones", "text"]
)
def test_what_a_torn_write_left_behind_the_last_commit_is_told_apart(rest: bytes) -> None:
    whole = file_of(RECORDS)
    contents = read(whole + rest)
    assert contents == Contents(
        values_after(RECORDS), 6, len(whole), unsound_bytes=len(rest), sequence_seen=6, sequence_before=5
    )


def test_a_file_with_a_flipped_byte_is_not_whole_and_tells_the_last_sound_change_in_it() -> None:
    whole = file_of(RECORDS)
    ends = [len(file_of(RECORDS[:count])) for count in range(len(RECORDS) + 1)]
    for position in range(len(HEADER), len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        sound = max(count for count, end in enumerate(ends) if end <= position)
        contents = read(bytes(damaged))
        assert contents.values == values_after(RECORDS[:sound])
        assert (contents.is_whole, contents.size_bytes) == (False, ends[sound])
        last_is_hit = sound == len(RECORDS) - 1
        assert contents.sequence_seen == (RECORDS[-2] if last_is_hit else RECORDS[-1]).sequence


@pytest.mark.parametrize("size", range(len(HEADER)))
def test_a_file_without_its_header_is_refused(size: int) -> None:
    with pytest.raises(DecodeError, match="begins with"):
        read(file_of(RECORDS)[:size])


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(DecodeError, match="format version 3; this program knows versions up to 2"):
        read(b"semelmd\x03" + file_of(RECORDS)[len(HEADER) :])


def test_a_record_older_than_the_one_before_it_does_not_count() -> None:
    whole = file_of(RECORDS)
    contents = read(whole + encode(RECORDS[0]))
    assert (contents.values, contents.size_bytes) == (values_after(RECORDS), len(whole))


def test_a_snapshot_says_the_same_in_one_record() -> None:
    contents = read(file_of(RECORDS))
    rewritten = read(snapshot(contents.values, contents.sequence))
    assert (rewritten.values, rewritten.sequence) == (contents.values, contents.sequence)


def test_an_empty_store_has_a_snapshot_too() -> None:
    assert read(snapshot({}, 7)).sequence == 7


paths = st.sampled_from(["/a", "/b", "/c/d", "/é"])
commits = st.lists(
    st.dictionaries(paths, st.none() | st.binary(max_size=300), min_size=1),
    max_size=8,
).map(
    lambda changes: [
        Record(
            number,
            tuple(Entry(path, None if value is None else Versioned(value, number)) for path, value in change.items()),
        )
        for number, change in enumerate(changes, start=1)
    ]
)


@given(commits, st.integers(0, 2**16))
def test_any_commits_cut_anywhere_leave_a_prefix(records: list[Record], cut: int) -> None:
    whole = file_of(records)
    size = len(HEADER) + cut % (len(whole) - len(HEADER) + 1)
    contents = read(whole[:size])
    assert contents.values in [values_after(records[:count]) for count in range(len(records) + 1)]
    assert contents.values == values_after([record for record in records if record.sequence <= contents.sequence])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(struct.pack(">QI", 2, 1), id="an entry that is not there"),
        pytest.param(struct.pack(">QI", 2, 2**32 - 1), id="four thousand million entries"),
        pytest.param(struct.pack(">QIHqI", 2, 1, 1, 0, 0) + b"\xff", id="a path that is not text"),
        pytest.param(struct.pack(">QIHqI", 2, 1, 1, 0, 100) + b"a", id="a value that passes the end"),
        pytest.param(struct.pack(">QI", 2, 0) + b"more", id="bytes behind the last entry"),
    ],
)
def test_a_record_that_nobody_wrote_is_unsound_whatever_its_checksum(body: bytes) -> None:
    size = struct.pack(">I", len(body))
    before = HEADER + encode(Record(1, ()))
    contents = read(before + size + struct.pack(">I", crc32c(body, crc32c(size))) + body)
    assert (contents.sequence, contents.size_bytes, contents.is_whole) == (1, len(before), False)
