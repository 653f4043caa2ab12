"""The controller: what may happen to topics, judged item by item, with Kafka's codes and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode
from semel.metadata.controller import (
    MetadataDecision,
    NewPartitions,
    NewTopic,
    Refusal,
    TopicPolicy,
    TopicResult,
    TopicToDelete,
    create_partitions,
    create_topics,
    delete_topics,
)
from semel.metadata.image import (
    Broker,
    BrokerRegistered,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from semel.metadata.topic_names import why_illegal

ONE_BROKER = ClusterImage("cluster").apply([BrokerRegistered(Broker(1, "h", 9092))])
THREE_BROKERS = ClusterImage("cluster").apply([BrokerRegistered(Broker(n, "h", 9092)) for n in (1, 2, 3)])
STATE = PartitionState(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


def numbered() -> Any:
    """Topic ids 1, 2, 3, ... in the place of random ones."""
    numbers: Iterator[int] = iter(range(1, 1_000_000))
    return lambda: UUID(int=next(numbers))


def create(image: ClusterImage, *topics: NewTopic, **policy: Any) -> MetadataDecision[TopicResult]:
    return create_topics(image, topics, policy=TopicPolicy(**policy), new_id=numbered())


def refused(decision: MetadataDecision[TopicResult]) -> list[tuple[ErrorCode, str] | None]:
    return [(result.refusal.code, result.refusal.message) if result.refusal else None for result in decision.results]


def image_with(*names: str, partitions: int = 1) -> ClusterImage:
    return ONE_BROKER.apply(
        TopicCreated(Topic(name, UUID(int=1000 + number), (STATE,) * partitions)) for number, name in enumerate(names)
    )


def test_a_topic_is_created_with_the_defaults() -> None:
    decision = create(THREE_BROKERS, NewTopic("orders"), num_partitions=2, default_replication_factor=3)
    (result,) = decision.results
    assert result.topic is not None
    assert (result.refusal, result.id) == (None, UUID(int=1))
    assert decision.changes == (TopicCreated(result.topic),)
    assert (len(result.topic.partitions), result.topic.replication_factor) == (2, 3)


def test_a_topic_is_created_as_asked() -> None:
    wanted = NewTopic("orders", num_partitions=1, replication_factor=1, configs={"retention.ms": "5"})
    (result,) = create(ONE_BROKER, wanted).results
    assert result.topic == Topic("orders", UUID(int=1), (STATE,), {"retention.ms": "5"})


def test_a_topic_is_created_where_somebody_said() -> None:
    wanted = NewTopic("orders", assignments=((1, (3, 1)), (0, (2, 3))))
    (result,) = create(THREE_BROKERS, wanted).results
    assert result.topic is not None
    assert [state.replicas for state in result.topic.partitions] == [(2, 3), (3, 1)]
    assert [state.leader for state in result.topic.partitions] == [2, 3]


MANUAL = "A manual partition assignment was specified, but"


# The codes and words that Apache Kafka 4.3.0 answered with.
@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why_illegal('a b')}"),
        (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
        (NewTopic("p_q"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'p_q' collides with existing topic: p.q"),
        (
            NewTopic("n", num_partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            NewTopic("n", num_partitions=-2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            NewTopic("n", num_partitions=0, replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic("__cluster_metadata"),
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            NewTopic("n", configs={"foo": "1"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: foo",
        ),
        (
            NewTopic("n", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            NewTopic("n", num_partitions=1, assignments=((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            f"{MANUAL} numPartitions was not set to -1.",
        ),
        (
            NewTopic("n", replication_factor=1, num_partitions=1, assignments=((0, (1,)),)),
            ErrorCode.INVALID_REQUEST,
            f"{MANUAL} replication factor was not set to -1.",
        ),
        (
            NewTopic("n", assignments=((0, (1,)), (0, (1,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("n", assignments=((1, (1,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("n", assignments=((0, (9,)),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_as_kafka_refuses_it(wanted: NewTopic, code: ErrorCode, message: str) -> None:
    decision = create(image_with("old", "p.q"), wanted)
    assert decision == MetadataDecision((), (TopicResult(wanted.name, refusal=Refusal(code, message)),))


def test_one_bad_topic_leaves_the_others_alone_and_answers_keep_their_order() -> None:
    decision = create(ONE_BROKER, NewTopic("a"), NewTopic("b", num_partitions=0), NewTopic("c"))
    assert [result.name for result in decision.results] == ["a", "b", "c"]
    assert [result.topic is not None for result in decision.results] == [True, False, True]
    assert len(decision.changes) == 2


def test_a_name_that_stands_twice_in_a_request_is_refused_once() -> None:
    decision = create(ONE_BROKER, NewTopic("a"), NewTopic("b"), NewTopic("a"))
    assert [result.name for result in decision.results] == ["a", "b"]
    assert refused(decision) == [(ErrorCode.INVALID_REQUEST, "Duplicate topic name."), None]


def test_two_names_of_one_request_that_collide_are_not_both_created() -> None:
    decision = create(ONE_BROKER, NewTopic("a.b"), NewTopic("a_b"))
    assert refused(decision) == [
        None,
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b"),
    ]


def test_a_request_for_very_many_partitions_is_refused_whole() -> None:
    too_many = (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    decision = create(ONE_BROKER, NewTopic("a", num_partitions=10_000), NewTopic("b"))
    assert (decision.changes, refused(decision)) == ((), [too_many, too_many])
    assert refused(create(ONE_BROKER, NewTopic("a", num_partitions=10_000))) == [None]


def test_the_cluster_holds_no_more_partitions_than_its_setting_allows() -> None:
    decision = create(
        image_with("old", partitions=3),
        NewTopic("a", num_partitions=2),
        NewTopic("b", num_partitions=2),
        NewTopic("c", num_partitions=1),
        partitions_max=6,
    )
    assert refused(decision) == [
        None,
        (
            ErrorCode.POLICY_VIOLATION,
            "Too many partitions: with 5 in the cluster, 2 more would exceed max.partitions (6).",
        ),
        None,
    ]


def test_topics_are_deleted_by_name_and_by_id() -> None:
    image = image_with("a", "b", "c")
    decision = delete_topics(image, [TopicToDelete(name="a"), TopicToDelete(id=UUID(int=1001))], policy=TopicPolicy())
    assert decision.changes == (TopicDeleted(image.topics["a"]), TopicDeleted(image.topics["b"]))
    assert [(result.name, result.id) for result in decision.results] == [("a", UUID(int=1000)), ("b", UUID(int=1001))]


def test_a_deletion_that_cannot_be_is_refused() -> None:
    image = image_with("a", "b")
    decision = delete_topics(
        image,
        [
            TopicToDelete(name="nope"),
            TopicToDelete(id=UUID(int=5)),
            TopicToDelete(),
            TopicToDelete(name="a", id=UUID(int=1000)),
            TopicToDelete(name="b"),
            TopicToDelete(id=UUID(int=1001)),
        ],
        policy=TopicPolicy(),
    )
    assert decision.changes == ()
    assert [result.refusal.code for result in decision.results if result.refusal] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_deletion_can_be_switched_off() -> None:
    decision = delete_topics(image_with("a"), [TopicToDelete(name="a")], policy=TopicPolicy(delete_topic_enable=False))
    assert decision.changes == ()
    assert refused(decision) == [(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")]


def test_a_topic_grows_and_what_it_had_stays() -> None:
    image = image_with("a", partitions=2)
    decision = create_partitions(image, [NewPartitions("a", 4, assignments=((1,), (1,)))], policy=TopicPolicy())
    (result,) = decision.results
    assert result.topic is not None
    assert decision.changes == (TopicAltered(result.topic),)
    assert result.topic.partitions == (STATE,) * 4
    assert result.topic.id == image.topics["a"].id


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (NewPartitions("a", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            NewPartitions("a", -22),
            ErrorCode.INVALID_PARTITIONS,
            "The topic a currently has 2 partition(s); -22 would not be an increase.",
        ),
        (NewPartitions("nope", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (
            NewPartitions("a", 5, assignments=((1,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions("a", 3, assignments=((2,),)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            NewPartitions("a", 20_001),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
        (
            NewPartitions("a", 101),
            ErrorCode.POLICY_VIOLATION,
            "Too many partitions: with 2 in the cluster, 99 more would exceed max.partitions (100).",
        ),
    ],
)
def test_a_growth_that_cannot_be_is_refused_as_kafka_refuses_it(
    wanted: NewPartitions, code: ErrorCode, message: str
) -> None:
    decision = create_partitions(image_with("a", partitions=2), [wanted], policy=TopicPolicy(partitions_max=100))
    assert decision == MetadataDecision((), (TopicResult(wanted.name, refusal=Refusal(code, message)),))


def test_a_topic_that_is_to_grow_twice_in_a_request_does_not() -> None:
    decision = create_partitions(image_with("a"), [NewPartitions("a", 2), NewPartitions("a", 3)], policy=TopicPolicy())
    assert refused(decision) == [(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]


# -- against a model --------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "a.b", "a_b", "c", "bad name", "..", ""])
counts = st.sampled_from([None, -1, 0, 1, 2, 5])
requests = st.one_of(
    st.lists(st.builds(NewTopic, names, num_partitions=counts, replication_factor=counts), min_size=1, max_size=4),
    st.lists(st.builds(TopicToDelete, name=names), min_size=1, max_size=3),
    st.lists(st.builds(NewPartitions, names, st.integers(-1, 9)), min_size=1, max_size=3),
)

MAX = 12


@given(st.lists(requests, max_size=8))
def test_any_requests_leave_the_topics_that_a_simple_model_says(history: list[list[Any]]) -> None:
    image = THREE_BROKERS
    model: dict[str, int] = {}
    policy = TopicPolicy(num_partitions=2, default_replication_factor=1, partitions_max=MAX)
    new_id = numbered()
    for request in history:
        match request[0]:
            case NewTopic():
                decision = create_topics(image, request, policy=policy, new_id=new_id)
                expected = _model_create(model, request)
            case TopicToDelete():
                decision = delete_topics(image, request, policy=policy)
                expected = _model_delete(model, request)
            case _:
                decision = create_partitions(image, request, policy=policy)
                expected = _model_grow(model, request)
        image = image.apply(decision.changes)
        assert {result.name for result in decision.results if result.refusal is None} == expected
        assert all((result.refusal is None) == (result.topic is not None) for result in decision.results)
        assert {name: len(topic.partitions) for name, topic in image.topics.items()} == model
        assert image.partition_count == sum(model.values()) <= MAX
        assert {topic.id: topic for topic in image.topics.values()} == image.topics_by_id


def _model_create(model: dict[str, int], request: list[NewTopic]) -> set[str]:
    times = Counter(topic.name for topic in request)
    created = set()
    for topic in request:
        partitions = 2 if topic.num_partitions is None else topic.num_partitions
        replicas = 1 if topic.replication_factor is None else topic.replication_factor
        taken = {known.replace(".", "_") for known in model}
        if (
            times[topic.name] == 1
            and topic.name in {"a", "b", "a.b", "a_b", "c"}
            and topic.name.replace(".", "_") not in taken
            and partitions > 0
            and 0 < replicas <= 3
            and sum(model.values()) + partitions <= MAX
        ):
            model[topic.name] = partitions
            created.add(topic.name)
    return created


def _model_delete(model: dict[str, int], request: list[TopicToDelete]) -> set[str]:
    times = Counter(topic.name for topic in request)
    deleted = {topic.name for topic in request if topic.name in model and times[topic.name] == 1}
    for name in deleted:
        assert name is not None
        del model[name]
    return {name for name in deleted if name is not None}


def _model_grow(model: dict[str, int], request: list[NewPartitions]) -> set[str]:
    times = Counter(topic.name for topic in request)
    grown = set()
    for topic in request:
        added = topic.count - model.get(topic.name, topic.count)
        if times[topic.name] == 1 and added > 0 and sum(model.values()) + added <= MAX:
            model[topic.name] = topic.count
            grown.add(topic.name)
    return grown
