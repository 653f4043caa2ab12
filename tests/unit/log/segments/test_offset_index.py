from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log.disk import File
from semel.log.segments.index_file import flush
from semel.log.segments.offset_index import OffsetIndex
from tests.unit.log.segments.index_content import content

ENTRIES = [(104, 4096), (109, 8200), (150, 12400)]


@pytest.fixture
def index() -> OffsetIndex:
    index = OffsetIndex(100)
    for offset, position in ENTRIES:
        index.append(offset, position)
    return index


@pytest.mark.parametrize(
    ("offset", "entry"),
    [
        (100, (100, 0)),
        (103, (100, 0)),
        (104, (104, 4096)),
        (108, (104, 4096)),
        (109, (109, 8200)),
        (5000, (150, 12400)),
        (2**62, (150, 12400)),
    ],
)
def test_lookup_finds_the_last_entry_at_or_before(index: OffsetIndex, offset: int, entry: tuple[int, int]) -> None:
    assert index.lookup(offset) == entry


def test_empty_index_points_to_the_beginning() -> None:
    assert OffsetIndex(100).lookup(120) == (100, 0)


@pytest.mark.parametrize(("offset", "position"), [(150, 13000), (151, 12400), (99, 13000), (100 + 2**31, 13000)])
def test_entries_only_ascend(index: OffsetIndex, offset: int, position: int) -> None:
    with pytest.raises(AssertionError):
        index.append(offset, position)
    assert list(index) == ENTRIES


@pytest.mark.parametrize(("offset", "kept"), [(151, 3), (150, 2), (110, 2), (109, 1), (104, 0), (0, 0)])
def test_truncation_drops_entries_at_or_beyond(index: OffsetIndex, offset: int, kept: int) -> None:
    index.truncate_to(offset)
    assert list(index) == ENTRIES[:kept]
    assert index.entries == kept


def test_layout_is_kafkas(index: OffsetIndex, file: File) -> None:
    flush(index, file)
    assert content(file).hex(" ", 4) == "00000004 00001000 00000009 00002008 00000032 00003070"


def test_flush_writes_what_is_new_and_only_that(index: OffsetIndex, file: File) -> None:
    assert index.file.is_behind(index)
    flush(index, file)
    assert not index.file.is_behind(index)
    file.write(0, b"\xff")
    index.append(160, 20000)
    assert index.file.is_behind(index)
    flush(index, file)
    assert content(file)[:1] == b"\xff"
    assert list(OffsetIndex.load(content(file)[8:], 100)) == [*ENTRIES[1:], (160, 20000)]


def test_truncation_reaches_the_file_with_the_next_flush(index: OffsetIndex, file: File) -> None:
    flush(index, file)
    index.truncate_to(109)
    assert index.file.is_behind(index)
    flush(index, file)
    assert not index.file.is_behind(index)
    assert list(OffsetIndex.load(content(file), 100)) == ENTRIES[:1]


def test_entries_after_a_truncation_replace_those_in_the_file(index: OffsetIndex, file: File) -> None:
    flush(index, file)
    index.truncate_to(109)
    index.append(112, 9000)
    flush(index, file)
    assert list(OffsetIndex.load(content(file), 100)) == [(104, 4096), (112, 9000)]


def test_truncation_of_what_was_never_written_leaves_the_file_alone(index: OffsetIndex) -> None:
    index.truncate_to(0)
    assert not index.file.is_behind(index)


def test_rebuilt_index_replaces_the_file(index: OffsetIndex, file: File) -> None:
    file.write(0, b"\xff" * 100)
    flush(index, file)
    assert list(OffsetIndex.load(content(file), 100)) == ENTRIES


def test_loaded_index_is_what_was_flushed(index: OffsetIndex, file: File) -> None:
    flush(index, file)
    loaded = OffsetIndex.load(content(file), 100)
    assert list(loaded) == ENTRIES
    assert not loaded.file.is_behind(loaded)


@pytest.mark.parametrize(
    ("ends", "kept"),
    [
        ({"end_offset": 150}, 2),
        ({"end_offset": 151}, 3),
        ({"end_position": 8200}, 1),
        ({"end_position": 8201}, 2),
        ({"end_offset": 150, "end_position": 8200}, 1),
    ],
)
def test_loading_drops_what_the_log_does_not_reach(
    index: OffsetIndex, file: File, ends: dict[str, int], kept: int
) -> None:
    flush(index, file)
    loaded = OffsetIndex.load(content(file), 100, **ends)
    assert list(loaded) == ENTRIES[:kept]
    flush(loaded, file)
    assert file.size() == kept * 8


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("00000004 00001000 000000", id="torn"),
        pytest.param("00000004 00001000 00000000 00000000", id="zeros behind"),
        pytest.param("00000004 00001000 00000004 00002000", id="an offset twice"),
        pytest.param("00000004 00001000 00000005 00001000", id="a position twice"),
        pytest.param("00000004 00001000 80000000 00002000", id="an offset of 32 bits"),
        pytest.param("00000004 00001000 00000005 80000000", id="a position of 32 bits"),
    ],
)
def test_file_that_breaks_the_law_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        OffsetIndex.load(bytes.fromhex(data), 100)
