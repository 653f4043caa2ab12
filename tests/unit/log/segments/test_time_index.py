from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log.disk import File
from semel.log.segments.index_file import flush
from semel.log.segments.time_index import TimeIndex
from tests.unit.log.segments.index_content import content

ENTRIES = [(1_700_000_000_000, 104), (1_700_000_000_005, 109), (1_700_000_000_050, 150)]


@pytest.fixture
def index() -> TimeIndex:
    index = TimeIndex(100)
    for timestamp, offset in ENTRIES:
        index.append(timestamp, offset)
    return index


@pytest.mark.parametrize(
    ("timestamp", "entry"),
    [
        (0, (-1, 100)),
        (1_699_999_999_999, (-1, 100)),
        (1_700_000_000_000, ENTRIES[0]),
        (1_700_000_000_004, ENTRIES[0]),
        (1_700_000_000_005, ENTRIES[1]),
        (2**62, ENTRIES[2]),
    ],
)
def test_lookup_finds_the_last_entry_at_or_before(index: TimeIndex, timestamp: int, entry: tuple[int, int]) -> None:
    assert index.lookup(timestamp) == entry


def test_last_entry_holds_the_largest_timestamp(index: TimeIndex) -> None:
    assert index.last == ENTRIES[-1]
    assert TimeIndex(100).last is None


@pytest.mark.parametrize("timestamp", [-1, 5, 1_700_000_000_050])
def test_timestamp_that_is_not_later_is_no_entry(index: TimeIndex, timestamp: int) -> None:
    index.append(timestamp, 160)
    assert list(index) == ENTRIES


def test_segment_without_timestamps_has_no_entries() -> None:
    index = TimeIndex(100)
    index.append(-1, 120)
    assert list(index) == []
    assert not index.file.is_behind(index)


@pytest.mark.parametrize("offset", [99, 149, 100 + 2**31])
def test_offsets_never_descend(index: TimeIndex, offset: int) -> None:
    with pytest.raises(AssertionError):
        index.append(1_700_000_000_051, offset)
    assert list(index) == ENTRIES


@pytest.mark.parametrize(("offset", "kept"), [(151, 3), (150, 2), (110, 2), (109, 1), (104, 0), (0, 0)])
def test_truncation_drops_entries_at_or_beyond(index: TimeIndex, offset: int, kept: int) -> None:
    index.truncate_to(offset)
    assert list(index) == ENTRIES[:kept]
    assert index.entries == kept


def test_layout_is_kafkas(index: TimeIndex, file: File) -> None:
    flush(index, file)
    assert content(file).hex(" ", 4) == (
        "0000018b cfe56800 00000004 0000018b cfe56805 00000009 0000018b cfe56832 00000032"
    )


def test_flush_writes_what_is_new_and_only_that(index: TimeIndex, file: File) -> None:
    flush(index, file)
    assert not index.file.is_behind(index)
    file.write(0, b"\xff")
    index.append(1_700_000_000_060, 160)
    assert index.file.is_behind(index)
    flush(index, file)
    assert content(file)[:1] == b"\xff"
    assert list(TimeIndex.load(content(file)[12:], 100)) == [*ENTRIES[1:], (1_700_000_000_060, 160)]
    assert list(index) == [*ENTRIES, (1_700_000_000_060, 160)]


def test_entries_after_a_truncation_replace_those_in_the_file(index: TimeIndex, file: File) -> None:
    flush(index, file)
    index.truncate_to(109)
    assert index.file.is_behind(index)
    flush(index, file)
    assert list(TimeIndex.load(content(file), 100)) == ENTRIES[:1]
    index.append(1_700_000_000_001, 112)
    flush(index, file)
    assert list(TimeIndex.load(content(file), 100)) == [ENTRIES[0], (1_700_000_000_001, 112)]


def test_rebuilt_index_replaces_the_file(index: TimeIndex, file: File) -> None:
    file.write(0, b"\xff" * 100)
    flush(index, file)
    assert list(TimeIndex.load(content(file), 100)) == ENTRIES


@pytest.mark.parametrize(("end_offset", "kept"), [(151, 3), (150, 2), (100, 0)])
def test_loading_drops_what_the_log_does_not_reach(index: TimeIndex, file: File, end_offset: int, kept: int) -> None:
    flush(index, file)
    loaded = TimeIndex.load(content(file), 100, end_offset=end_offset)
    assert list(loaded) == ENTRIES[:kept]
    assert loaded.file.is_behind(loaded) == (kept < 3)
    flush(loaded, file)
    assert file.size() == kept * 12


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("00000000 00000005 00000004 00", id="torn"),
        pytest.param("00000000 00000005 00000004 00000000 00000000 00000000", id="zeros behind"),
        pytest.param("00000000 00000005 00000004 00000000 00000005 00000006", id="a timestamp twice"),
        pytest.param("00000000 00000005 00000004 00000000 00000006 00000003", id="an offset that descends"),
        pytest.param("00000000 00000005 80000000", id="an offset of 32 bits"),
        pytest.param("ffffffff ffffffff 00000004", id="no timestamp"),
    ],
)
def test_file_that_breaks_the_law_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        TimeIndex.load(bytes.fromhex(data), 100)
