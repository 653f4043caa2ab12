"""Both ends of a fetch session together: whatever is lost or forgotten on the way, the broker reads what was asked."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.broker.fetch.fetch_sessions import FetchSessions, targets_of
from semel.client.machine.consumer.fetch_session import Asked, FetchSessionHandler
from semel.errors import ErrorCode, KafkaError
from semel.types import INT32_MAX, TopicPartition
from semel.wire.codec import decode, encode
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse

IDS = {topic: UUID(int=number) for number, topic in enumerate("ab", 1)}


def asked(topic: str, partition: int, offset: int, *, topic_id: UUID | None = None) -> Asked:
    return Asked(topic_id or IDS[topic], FetchPartition(partition, fetch_offset=offset, partition_max_bytes=100))


def wanting(**offsets: int) -> dict[TopicPartition, Asked]:
    """``a0=7``: partition 0 of topic a, from offset 7."""
    return {
        TopicPartition(name[0], int(name[1:])): asked(name[0], int(name[1:]), offset)
        for name, offset in offsets.items()
    }


class Broker:
    """The broker's own memory of sessions, behind bytes."""

    def __init__(self, slots_max: int = 10) -> None:
        self.sessions = FetchSessions(slots_max, Random(0))
        self.requests: list[FetchRequest] = []

    def fetch(self, session: FetchSessionHandler, wanted: dict[TopicPartition, Asked], version: int = 18) -> Any:
        contents = session.request(wanted, version=version, uses_topic_ids=version >= 13)
        request = FetchRequest(
            session_id=contents.session_id,
            session_epoch=contents.session_epoch,
            topics=contents.topics,
            forgotten_topics_data=contents.forgotten_topics_data,
        )
        self.requests.append(decode(FetchRequest, encode(request, version), version))
        return self.requests[-1]

    def answer(self, request: FetchRequest, version: int = 18) -> tuple[FetchResponse, dict[tuple[Any, int], int]]:
        """The answer, and what was read for it: offsets by topic and partition."""
        if not request.session_epoch:
            self.sessions.close(request.session_id)
            targets = targets_of(request)
            session = None
            if version >= 7 and request.session_epoch == 0:
                session = self.sessions.create(targets, privileged=False, uses_topic_ids=version >= 13, now_ms=0)
            return FetchResponse(session_id=session.id if session else 0), self._read(targets)
        try:
            session = self.sessions.resume(request, uses_topic_ids=version >= 13, now_ms=0)
        except KafkaError as error:
            return FetchResponse(error_code=error.code), {}
        assert session is not None
        return FetchResponse(session_id=session.id), self._read(list(session.targets.values()))

    def _read(self, targets: list[Any]) -> dict[tuple[Any, int], int]:
        return {target.key: target.asked.fetch_offset for target in targets}


def reads(wanted: dict[TopicPartition, Asked], version: int = 18) -> dict[tuple[Any, int], int]:
    return {
        (one.topic_id.bytes if version >= 13 else partition.topic, partition.partition): one.partition.fetch_offset
        for partition, one in wanted.items()
    }


def test_the_first_request_names_everything_and_the_next_ones_what_has_changed() -> None:
    broker, session = Broker(), FetchSessionHandler()
    first = broker.fetch(session, wanting(a0=0, a1=0, b0=5))
    assert (first.session_id, first.session_epoch, len(targets_of(first))) == (0, 0, 3)
    assert session.answered(broker.answer(first)[0])
    second = broker.fetch(session, wanting(a0=0, a1=7))
    assert second.session_epoch == 1
    assert [(target.asked.partition, target.asked.fetch_offset) for target in targets_of(second)] == [(1, 7)]
    assert [(gone.topic_id, gone.partitions) for gone in second.forgotten_topics_data] == [(IDS["b"], [0])]
    assert broker.answer(second)[1] == reads(wanting(a0=0, a1=7))


def test_nothing_is_named_when_nothing_has_changed() -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=0)))[0])
    again = broker.fetch(session, wanting(a0=0))
    assert (again.topics, again.forgotten_topics_data) == ([], [])
    assert broker.answer(again)[1] == reads(wanting(a0=0))


def test_a_lost_request_ends_the_session_and_begins_another_one() -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=0)))[0])
    broker.fetch(session, wanting(a0=1))
    session.lost()
    third = broker.fetch(session, wanting(a0=1))
    assert (third.session_id > 0, third.session_epoch, len(targets_of(third))) == (True, 0, 1)
    assert session.answered(broker.answer(third)[0])
    assert len(broker.sessions) == 1, "the old one is closed by the new one"


@pytest.mark.parametrize("version", [7, 12, 18])
def test_a_broker_that_was_restarted_is_told_everything_again(version: int) -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=0), version), version)[0])
    broker.sessions = FetchSessions(10, Random(1))
    assert not session.answered(broker.answer(broker.fetch(session, wanting(a0=1), version), version)[0])
    anew = broker.fetch(session, wanting(a0=1), version)
    assert (anew.session_id, anew.session_epoch) == (0, 0)
    assert broker.answer(anew, version)[1] == reads(wanting(a0=1), version)


def test_a_broker_without_room_is_asked_for_everything_every_time() -> None:
    broker, session = Broker(slots_max=0), FetchSessionHandler()
    for offset in range(3):
        request = broker.fetch(session, wanting(a0=offset))
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert session.answered(broker.answer(request)[0])


def test_versions_without_sessions_have_none() -> None:
    session = FetchSessionHandler()
    contents = session.request(wanting(a0=0), version=6, uses_topic_ids=False)
    assert (contents.session_id, contents.session_epoch, contents.forgotten_topics_data) == (0, None, [])


def test_a_topic_that_was_created_again_takes_the_place_of_the_old_one() -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=9)))[0])
    new_id = UUID(int=77)
    wanted = {TopicPartition("a", 0): asked("a", 0, 0, topic_id=new_id)}
    assert broker.answer(broker.fetch(session, wanted))[1] == {(new_id.bytes, 0): 0}


def test_topics_without_ids_are_not_mixed_into_a_session_with_them() -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=0)))[0])
    request = broker.fetch(session, wanting(a0=1), 12)
    assert (request.session_id > 0, request.session_epoch) == (True, 0)
    assert broker.answer(request, 12)[1] == reads(wanting(a0=1), 12)


def test_an_answer_for_another_session_does_not_count() -> None:
    broker, session = Broker(), FetchSessionHandler()
    session.answered(broker.answer(broker.fetch(session, wanting(a0=0)))[0])
    broker.fetch(session, wanting(a0=1))
    assert not session.answered(FetchResponse(session_id=INT32_MAX))
    assert broker.fetch(session, wanting(a0=1)).session_epoch == 0


steps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["a0", "a1", "a2", "b0", "b1"]), st.integers(0, 3), min_size=1),
        st.sampled_from(["served", "served", "served", "answer lost", "request lost", "forgotten"]),
    ),
    max_size=25,
)


@settings(max_examples=300, derandomize=True, database=None)
@given(steps=steps, version=st.sampled_from([7, 12, 13, 18]))
def test_what_is_read_is_what_was_asked_whatever_gets_lost(
    steps: list[tuple[dict[str, int], str]], version: int
) -> None:
    broker, session = Broker(slots_max=2), FetchSessionHandler()
    for offsets, fate in steps:
        wanted = wanting(**offsets)
        if fate == "forgotten":
            broker.sessions = FetchSessions(2, Random(2))
        request = broker.fetch(session, wanted, version)
        if fate == "request lost":
            session.lost()
            continue
        response, read = broker.answer(request, version)
        if fate == "answer lost":
            session.lost()
        elif session.answered(response):
            assert read == reads(wanted, version)
        else:
            assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
