"""A request that is cut into pieces asks for the same elements, in their order, and its answers are joined as one."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.broker.requests.pieces import ID_CHARACTERS, Lists, Part, cut, join
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

ANSWERED = ("groups", "topics", "partitions")
LISTS = Lists(("groups", "topics", "partition_indexes"), ANSWERED, attrgetter("group_id"))
LONG_ID = "z" * (9 * ID_CHARACTERS)
"""A group id that counts as nine elements more."""

indexes = st.lists(st.integers(0, 9), max_size=12)
topics = st.lists(
    st.builds(OffsetFetchRequestTopics, name=st.sampled_from("abc"), partition_indexes=indexes), max_size=4
)
groups = st.lists(
    st.builds(OffsetFetchRequestGroup, group_id=st.sampled_from(["x", "y", LONG_ID]), topics=topics | st.none()),
    max_size=4,
)


def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
    """What a handler says: a result for each element, in its order."""
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group.group_id,
                [
                    OffsetFetchResponseTopics(
                        topic.name,
                        topic.topic_id,
                        [OffsetFetchResponsePartitions(index, 7) for index in topic.partition_indexes],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def leaves(request: Any) -> int:
    return sum(len(topic.partition_indexes) or 1 for group in request.groups for topic in group.topics or ()) + sum(
        not group.topics for group in request.groups
    )


def long_ids(request: Any) -> int:
    return [group.group_id for group in request.groups].count(LONG_ID)


@given(groups=groups, size=st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_pieces_ask_for_everything_once_and_their_answers_are_one(
    groups: list[OffsetFetchRequestGroup], size: int
) -> None:
    request = OffsetFetchRequest(groups=groups, require_stable=True)
    whole = answer(request)
    pieces = list(cut(request, LISTS, size))
    assert all(leaves(piece.message) <= size for piece in pieces)
    assert all(long_ids(piece.message) <= max(1, size // 10) for piece in pieces)
    assert all(piece.message.require_stable for piece in pieces)
    if pieces:
        assert join([Part(answer(piece.message), piece.continued_depth) for piece in pieces], ANSWERED) == whole


@given(count=st.integers(1, 200), size=st.integers(1, 50))
@settings(deadline=None)
def test_a_topic_that_was_cut_is_answered_as_one_topic(count: int, size: int) -> None:
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[*range(count)])])]
    )
    pieces = [Part(answer(piece), continued_depth) for piece, continued_depth in cut(request, LISTS, size)]
    assert join(pieces, ANSWERED) == answer(request)
