from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from semel.testing.virtual.frames import FrameSplitter, payload


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(0, 150), max_size=6))
def test_frames_come_out_whole_however_the_bytes_were_cut(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, payloads)) + b"\0\0\0\5par"
    splitter = FrameSplitter()
    positions = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = [frame for start, stop in itertools.pairwise(positions) for frame in splitter.feed(stream[start:stop])]
    assert [payload(frame) for frame in frames] == payloads
    assert splitter.rest() == b"\0\0\0\5par"


def test_a_stream_that_is_not_framed_passes_as_it_is() -> None:
    splitter = FrameSplitter()
    first = list(splitter.feed(framed(b"ok") + b"GET / HT"))
    assert (first, splitter.framed) == ([framed(b"ok"), b"GET / HT"], False)
    assert list(splitter.feed(b"TP/1.1")) == [b"TP/1.1"]


def test_a_negative_length_passes_as_it_is() -> None:
    assert list(FrameSplitter().feed(b"\xff\xff\xff\xff...")) == [b"\xff\xff\xff\xff..."]
