from __future__ import annotations

import random
from uuid import UUID

import pytest

from semel.broker.fetch.fetch_sessions import (
    EVICTION_MS_MIN,
    PARTITIONS_MAX,
    SESSION_PARTITIONS_MAX,
    FetchSession,
    FetchSessions,
    FetchTarget,
    targets_of,
)
from semel.errors import ErrorCode, KafkaError
from semel.types import INT32_MAX
from semel.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

TOPIC_ID = UUID(int=7)


def sessions(slots_max: int = 10) -> FetchSessions:
    return FetchSessions(slots_max, random.Random(1))


def request(*offsets: tuple[int, int], session: FetchSession | None = None, epoch: int = 1) -> FetchRequest:
    """A request for partitions of topic "t": (partition, fetch offset) each."""
    partitions = [FetchPartition(partition=partition, fetch_offset=offset) for partition, offset in offsets]
    topics = [FetchTopic(topic="t", partitions=partitions)] if partitions else []
    return FetchRequest(session_id=session.id if session else 0, session_epoch=epoch, topics=topics)


def started(
    cache: FetchSessions, *offsets: tuple[int, int], now_ms: float = 0, privileged: bool = False
) -> FetchSession:
    session = cache.create(targets_of(request(*offsets)), privileged=privileged, uses_topic_ids=False, now_ms=now_ms)
    assert session is not None
    return session


def data(partition: int, *, high_watermark: int = 0, log_start_offset: int = 0, records: bytes = b"") -> PartitionData:
    return PartitionData(
        partition_index=partition, high_watermark=high_watermark, log_start_offset=log_start_offset, records=records
    )


def told(session: FetchSession, *results: PartitionData) -> list[int]:
    targets = {target.asked.partition: target for target in session.targets.values()}
    return [
        answered.partition_index
        for _, answered in session.changed_results([(targets[result.partition_index], result) for result in results])
    ]


def test_an_incremental_request_keeps_what_it_does_not_name() -> None:
    cache = sessions()
    session = started(cache, (0, 10), (1, 20))

    resumed = cache.resume(request((1, 25), session=session), uses_topic_ids=False, now_ms=1)

    assert resumed is session
    assert [(target.asked.partition, target.asked.fetch_offset) for target in session.targets.values()] == [
        (0, 10),
        (1, 25),
    ]


def test_forgotten_partitions_leave_the_session() -> None:
    cache = sessions()
    session = started(cache, (0, 0), (1, 0), (2, 0))
    incremental = request(session=session)
    incremental.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0, 2, 9])]

    cache.resume(incremental, uses_topic_ids=False, now_ms=1)

    assert [target.asked.partition for target in session.targets.values()] == [1]


def test_a_session_that_forgot_everything_is_closed() -> None:
    cache = sessions()
    session = started(cache, (0, 0))
    incremental = request(session=session)
    incremental.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]

    assert cache.resume(incremental, uses_topic_ids=False, now_ms=1) is None
    assert len(cache) == 0


def test_forgotten_topics_are_named_by_id_where_the_session_uses_ids() -> None:
    cache = sessions()
    topics = [FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0), FetchPartition(partition=1)])]
    session = cache.create(targets_of(FetchRequest(topics=topics)), privileged=False, uses_topic_ids=True, now_ms=0)
    assert session is not None
    incremental = FetchRequest(
        session_id=session.id,
        session_epoch=1,
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])],
    )

    cache.resume(incremental, uses_topic_ids=True, now_ms=1)

    assert [target.key for target in session.targets.values()] == [(TOPIC_ID.bytes, 1)]


def test_the_epoch_counts_up_by_one_and_a_repeated_request_is_refused() -> None:
    cache = sessions()
    session = started(cache, (0, 0))
    cache.resume(request(session=session, epoch=1), uses_topic_ids=False, now_ms=1)
    cache.resume(request(session=session, epoch=2), uses_topic_ids=False, now_ms=1)

    with pytest.raises(KafkaError, match=r"epoch 2 for fetch session .*; expected 3") as refused:
        cache.resume(request(session=session, epoch=2), uses_topic_ids=False, now_ms=1)

    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_past_the_initial_and_final_ones() -> None:
    cache = sessions()
    session = started(cache, (0, 0))
    session.epoch = INT32_MAX

    cache.resume(request(session=session, epoch=INT32_MAX), uses_topic_ids=False, now_ms=1)

    assert session.epoch == 1


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        sessions().resume(FetchRequest(session_id=99, session_epoch=1), uses_topic_ids=False, now_ms=0)

    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    cache = sessions()
    session = started(cache, (0, 0))

    with pytest.raises(KafkaError) as refused:
        cache.resume(request(session=session), uses_topic_ids=True, now_ms=0)

    assert refused.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_only_news_is_told() -> None:
    session = started(sessions(), (0, 0), (1, 0), (2, 0))
    assert told(session, data(0), data(1), data(2)) == [0, 1, 2]

    assert told(session, data(0), data(1), data(2)) == []
    assert told(session, data(0, high_watermark=5), data(1, log_start_offset=3), data(2, records=b"r")) == [0, 1, 2]
    assert told(session, data(0, high_watermark=5), data(1, log_start_offset=3), data(2)) == []


def test_an_error_is_always_told_and_so_is_what_comes_after_it() -> None:
    session = started(sessions(), (0, 0))
    told(session, data(0))
    failed = PartitionData(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR, high_watermark=-1)

    assert told(session, failed) == [0]
    assert told(session, failed) == [0]
    assert told(session, data(0)) == [0]
    assert told(session, data(0)) == []


def test_divergence_is_told() -> None:
    session = started(sessions(), (0, 0))
    told(session, data(0))
    diverging = data(0)
    diverging.diverging_epoch = EpochEndOffset(epoch=1, end_offset=0)

    assert told(session, diverging) == [0]


def test_partitions_with_records_go_to_the_end_so_that_all_get_their_turn() -> None:
    session = started(sessions(), (0, 0), (1, 0), (2, 0))

    told(session, data(0, records=b"r"), data(1, high_watermark=4), data(2))

    assert [target.asked.partition for target in session.targets.values()] == [1, 2, 0]


def test_there_is_no_session_when_all_places_are_taken_by_recent_ones() -> None:
    cache = sessions(slots_max=2)
    started(cache, (0, 0))
    started(cache, (0, 0))

    refused = cache.create(targets_of(request((0, 0))), privileged=False, uses_topic_ids=False, now_ms=EVICTION_MS_MIN)

    assert refused is None
    assert len(cache) == 2


def test_the_session_unused_for_longest_makes_room() -> None:
    cache = sessions(slots_max=2)
    unused = started(cache, (0, 0), now_ms=0)
    used = started(cache, (0, 0), now_ms=0)
    cache.resume(request(session=used), uses_topic_ids=False, now_ms=EVICTION_MS_MIN)

    created = started(cache, (0, 0), now_ms=EVICTION_MS_MIN + 1)

    assert set(cache._sessions) == {used.id, created.id}
    assert unused.id not in cache._sessions
    assert cache.evictions == 1


def test_a_large_session_takes_the_place_of_a_small_one_that_has_had_its_time() -> None:
    cache = sessions(slots_max=1)
    small = started(cache, (0, 0), now_ms=0)
    cache.resume(request(session=small), uses_topic_ids=False, now_ms=EVICTION_MS_MIN)

    assert (
        cache.create(targets_of(request((0, 0))), privileged=False, uses_topic_ids=False, now_ms=EVICTION_MS_MIN)
        is None
    )
    larger = started(cache, (0, 0), (1, 0), now_ms=EVICTION_MS_MIN)

    assert list(cache._sessions) == [larger.id]


def test_a_follower_s_session_goes_last_and_takes_a_consumer_s_place() -> None:
    cache = sessions(slots_max=1)
    consumer = started(cache, (0, 0), (1, 0), (2, 0), now_ms=0)
    cache.resume(request(session=consumer), uses_topic_ids=False, now_ms=EVICTION_MS_MIN)
    follower = started(cache, (0, 0), now_ms=EVICTION_MS_MIN, privileged=True)
    cache.resume(request(session=follower), uses_topic_ids=False, now_ms=2 * EVICTION_MS_MIN)

    many = targets_of(request(*((partition, 0) for partition in range(50))))
    assert cache.create(many, privileged=False, uses_topic_ids=False, now_ms=2 * EVICTION_MS_MIN) is None
    assert list(cache._sessions) == [follower.id]


def test_with_no_slots_there_are_no_sessions() -> None:
    assert sessions(slots_max=0).create([], privileged=False, uses_topic_ids=False, now_ms=0) is None


def test_a_target_is_known_by_name_or_by_id() -> None:
    assert FetchTarget("t", UUID(int=0), FetchPartition(partition=3)).key == ("t", 3)
    assert FetchTarget("", TOPIC_ID, FetchPartition(partition=3)).key == (TOPIC_ID.bytes, 3)


def many(count: int, session: FetchSession | None = None, *, first: int = 0, epoch: int = 1) -> FetchRequest:
    return request(*((partition, 0) for partition in range(first, first + count)), session=session, epoch=epoch)


def made(cache: FetchSessions, count: int, *, now_ms: float = 0) -> FetchSession | None:
    return cache.create(targets_of(many(count)), privileged=False, uses_topic_ids=False, now_ms=now_ms)


def test_a_session_that_would_be_too_large_is_not_made() -> None:
    cache = sessions()
    assert made(cache, SESSION_PARTITIONS_MAX + 1) is None
    assert made(cache, SESSION_PARTITIONS_MAX) is not None
    assert cache.partitions == SESSION_PARTITIONS_MAX


def test_a_session_that_grows_too_large_is_closed_and_its_client_begins_anew() -> None:
    cache = sessions()
    session = made(cache, SESSION_PARTITIONS_MAX)
    assert session is not None
    with pytest.raises(KafkaError) as refused:
        cache.resume(many(1, session, first=SESSION_PARTITIONS_MAX), uses_topic_ids=False, now_ms=1)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partitions) == (0, 0)


def test_all_sessions_together_remember_a_limited_number_of_partitions() -> None:
    cache = sessions(slots_max=1000)
    for _ in range(PARTITIONS_MAX // SESSION_PARTITIONS_MAX):
        assert made(cache, SESSION_PARTITIONS_MAX) is not None
    assert made(cache, 1) is None, "there are places, but no room"
    assert cache.partitions == PARTITIONS_MAX

    assert made(cache, 1, now_ms=EVICTION_MS_MIN + 1) is not None, "one that was not used for a while has made room"
    assert cache.evictions == 1
    assert cache.partitions == PARTITIONS_MAX - SESSION_PARTITIONS_MAX + 1


def test_partitions_are_counted_as_they_come_and_go() -> None:
    cache = sessions()
    session = started(cache, (0, 0), (1, 0))
    again = request((2, 0), session=session)
    again.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0, 1])]
    cache.resume(again, uses_topic_ids=False, now_ms=1)
    assert cache.partitions == 1
    cache.close(session.id)
    assert cache.partitions == 0
