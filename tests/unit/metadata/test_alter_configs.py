"""Altering configs: a resource as a whole or not at all, with Kafka's codes and words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ErrorCode
from semel.log.config import LogConfig
from semel.metadata.alter_configs import (
    Alteration,
    AlterKind,
    ConfigPolicy,
    ConfigResult,
    Resource,
    ResourceType,
    alter_configs,
    incremental_alter_configs,
)
from semel.metadata.controller import MetadataDecision, Refusal, TopicPolicy
from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    ClusterImage,
    PartitionState,
    Topic,
    TopicAltered,
    TopicCreated,
)
from semel.settings import AtLeast, ListOf, Setting, SettingError, Settings, SettingType, Update

BROKER_SETTINGS = Settings(
    "broker",
    [
        Setting(name="num.partitions", type=SettingType.INT, default=1, doc="", rule=AtLeast(1)),
        Setting(name="max.connections", type=SettingType.INT, default=1, doc="", update=Update.CLUSTER_WIDE),
        Setting(
            name="log.cleanup.policy",
            type=SettingType.LIST,
            default=("delete",),
            doc="",
            rule=ListOf(("delete", "compact")),
            update=Update.CLUSTER_WIDE,
        ),
    ],
)
POLICY = ConfigPolicy(TopicPolicy(), BROKER_SETTINGS)

ORDERS = Topic(
    "orders",
    UUID(int=1),
    (PartitionState(1, 0, (1,), (1,)),),
    {"retention.ms": "5", "cleanup.policy": "compact,delete"},
)
IMAGE = ClusterImage("cluster").apply(
    [
        BrokerRegistered(Broker(1, "h", 9092)),
        TopicCreated(ORDERS),
        TopicCreated(Topic("bare", UUID(int=2), ORDERS.partitions)),
        BrokerConfigsAltered(None, {"max.connections": "7"}),
    ]
)
OTHER_TYPE = (
    "Configs of resource type 64 cannot be altered; only those of topics (2), brokers (4), client metrics (16) and "
    "groups (32) can."
)
TOPIC = Resource(ResourceType.TOPIC, "orders")
BARE = Resource(ResourceType.TOPIC, "bare")
BROKER = Resource(ResourceType.BROKER, "1")
ALL_BROKERS = Resource(ResourceType.BROKER, "")


def alter(
    resource: Resource, *alterations: Alteration, policy: ConfigPolicy = POLICY
) -> MetadataDecision[ConfigResult]:
    return incremental_alter_configs(IMAGE, [(resource, alterations)], policy=policy)


def topic_configs(decision: MetadataDecision[ConfigResult]) -> Mapping[str, str]:
    (change,) = decision.changes
    assert isinstance(change, TopicAltered)
    return change.topic.configs


@pytest.mark.parametrize(
    ("alteration", "configs"),
    [
        (Alteration("segment.ms", AlterKind.SET, "9"), {**ORDERS.configs, "segment.ms": "9"}),
        (Alteration("retention.ms", AlterKind.SET, "9"), {**ORDERS.configs, "retention.ms": "9"}),
        (Alteration("retention.ms", AlterKind.DELETE), {"cleanup.policy": "compact,delete"}),
        (
            Alteration("cleanup.policy", AlterKind.SUBTRACT, "delete"),
            {"retention.ms": "5", "cleanup.policy": "compact"},
        ),
        (
            Alteration("cleanup.policy", AlterKind.SUBTRACT, "delete , compact"),
            {"retention.ms": "5", "cleanup.policy": ""},
        ),
    ],
)
def test_single_settings_of_a_topic_are_altered_and_the_others_stay(
    alteration: Alteration, configs: dict[str, str]
) -> None:
    decision = alter(TOPIC, alteration)
    assert decision.results == (ConfigResult(TOPIC),)
    assert topic_configs(decision) == configs


@pytest.mark.parametrize(
    "alteration",
    [
        Alteration("retention.ms", AlterKind.SET, "5"),
        Alteration("cleanup.policy", AlterKind.APPEND, "delete"),
        Alteration("segment.ms", AlterKind.DELETE),
        Alteration("no.such.setting", AlterKind.DELETE),
    ],
)
def test_what_changes_nothing_is_no_change(alteration: Alteration) -> None:
    assert alter(TOPIC, alteration) == MetadataDecision((), (ConfigResult(TOPIC),))


def test_appending_to_a_list_that_is_not_set_begins_with_the_brokers_default() -> None:
    policy = ConfigPolicy(
        TopicPolicy(log_defaults=LogConfig.from_settings({"cleanup.policy": "compact"})), BROKER_SETTINGS
    )
    appended = alter(BARE, Alteration("cleanup.policy", AlterKind.APPEND, "delete"), policy=policy)
    assert topic_configs(appended) == {"cleanup.policy": "compact,delete"}


def test_a_full_alteration_forgets_what_it_does_not_name() -> None:
    decision = alter_configs(IMAGE, [(TOPIC, [("segment.ms", "9")]), (ALL_BROKERS, [])], policy=POLICY)
    assert decision.results == (ConfigResult(TOPIC), ConfigResult(ALL_BROKERS))
    topic_altered, broker_altered = decision.changes
    assert isinstance(topic_altered, TopicAltered)
    assert topic_altered.topic.configs == {"segment.ms": "9"}
    assert broker_altered == BrokerConfigsAltered(None, {})


@pytest.mark.parametrize(("resource", "node_id"), [(BROKER, 1), (ALL_BROKERS, None)])
def test_a_broker_or_all_of_them_are_altered(resource: Resource, node_id: int | None) -> None:
    decision = alter(resource, Alteration("max.connections", AlterKind.SET, "9"))
    assert decision == MetadataDecision(
        (BrokerConfigsAltered(node_id, {"max.connections": "9"}),), (ConfigResult(resource),)
    )


def test_appending_to_a_brokers_list_begins_with_what_it_was_started_with() -> None:
    policy = ConfigPolicy(TopicPolicy(), BROKER_SETTINGS, broker_texts={"log.cleanup.policy": "compact"})
    decision = alter(BROKER, Alteration("log.cleanup.policy", AlterKind.APPEND, "delete"), policy=policy)
    assert decision.changes == (BrokerConfigsAltered(1, {"log.cleanup.policy": "compact,delete"}),)


# The codes and words that Apache Kafka 4.3.0 answered with, but for the unknown broker setting, which Kafka keeps.
@pytest.mark.parametrize(
    ("resource", "alteration", "code", "message"),
    [
        (
            Resource(ResourceType.TOPIC, "nope"),
            Alteration("retention.ms", AlterKind.SET, "5"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'nope' does not exist.",
        ),
        (
            Resource(ResourceType.TOPIC, ".."),
            Alteration("retention.ms", AlterKind.SET, "5"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '..' is not allowed",
        ),
        (
            Resource(ResourceType.TOPIC, ""),
            Alteration("retention.ms", AlterKind.SET, "5"),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            TOPIC,
            Alteration("retention.m", AlterKind.SET, "5"),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: retention.m; did you mean retention.ms?",
        ),
        (
            TOPIC,
            Alteration("retention.ms", AlterKind.SET, "x"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: not a number of type LONG",
        ),
        (
            TOPIC,
            Alteration("retention.ms", AlterKind.SET),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for: retention.ms",
        ),
        (
            TOPIC,
            Alteration("retention.ms", AlterKind.APPEND, "5"),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            Alteration("foo", AlterKind.SUBTRACT, "5"),
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key foo because its type is not LIST.",
        ),
        (
            TOPIC,
            Alteration("retention.ms", 9, "5"),
            ErrorCode.INVALID_REQUEST,
            "Unknown operation type 9 for config retention.ms",
        ),
        (
            BROKER,
            Alteration("num.partitions", AlterKind.SET, "x"),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            Alteration("max.connections", AlterKind.SET, "x"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration max.connections: not a number of type INT",
        ),
        (
            ALL_BROKERS,
            Alteration("max.connection", AlterKind.SET, "1"),
            ErrorCode.INVALID_CONFIG,
            "Unknown broker config name: max.connection; did you mean max.connections?",
        ),
        (
            Resource(ResourceType.BROKER, "7"),
            Alteration("max.connections", AlterKind.SET, "1"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            "No broker with id 7 found.",
        ),
        (
            Resource(ResourceType.BROKER, "x"),
            Alteration("max.connections", AlterKind.SET, "1"),
            ErrorCode.INVALID_REQUEST,
            "Broker id must be an integer, but it is: x",
        ),
        (
            Resource(ResourceType.BROKER, "01"),
            Alteration("max.connections", AlterKind.SET, "1"),
            ErrorCode.INVALID_REQUEST,
            "Broker id must be an integer, but it is: 01",
        ),
        (
            Resource(64, "g"),
            Alteration("x", AlterKind.SET, "1"),
            ErrorCode.INVALID_REQUEST,
            OTHER_TYPE,
        ),
    ],
)
def test_an_alteration_that_cannot_be_is_refused(
    resource: Resource, alteration: Alteration, code: ErrorCode, message: str
) -> None:
    assert alter(resource, alteration) == MetadataDecision((), (ConfigResult(resource, Refusal(code, message)),))


def test_a_resource_with_one_bad_alteration_is_left_as_it_was_and_the_others_are_altered() -> None:
    decision = incremental_alter_configs(
        IMAGE,
        [
            (TOPIC, [Alteration("segment.ms", AlterKind.SET, "9"), Alteration("retention.ms", AlterKind.SET, "x")]),
            (BROKER, [Alteration("max.connections", AlterKind.SET, "9")]),
        ],
        policy=POLICY,
    )
    assert decision.changes == (BrokerConfigsAltered(1, {"max.connections": "9"}),)
    assert [result.refusal is None for result in decision.results] == [False, True]


def test_settings_are_judged_together_with_what_was_set_before() -> None:
    decision = alter(
        TOPIC,
        Alteration("min.compaction.lag.ms", AlterKind.SET, "9"),
        Alteration("max.compaction.lag.ms", AlterKind.SET, "8"),
    )
    (result,) = decision.results
    assert result.refusal is not None
    assert result.refusal.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
def test_a_brokers_settings_are_judged_together_with_what_holds_for_all(resource: Resource) -> None:
    def check(texts: Mapping[str, str]) -> None:
        if texts.get("max.connections") == "9" and texts.get("log.cleanup.policy") == "compact":
            raise SettingError("max.connections", "that cannot be meant")

    policy = ConfigPolicy(TopicPolicy(), BROKER_SETTINGS, check_broker=check)
    image = IMAGE.apply(
        [
            BrokerConfigsAltered(None, {"max.connections": "9"}),
            BrokerConfigsAltered(1, {"log.cleanup.policy": "delete"}),
        ]
    )
    wanted = [Alteration("log.cleanup.policy", AlterKind.SET, "compact")]
    decision = incremental_alter_configs(image, [(resource, wanted)], policy=policy)
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "that cannot be meant")
    assert decision == MetadataDecision((), (ConfigResult(resource, refusal),))
    image = image.apply([BrokerConfigsAltered(None, {})])
    assert incremental_alter_configs(image, [(resource, wanted)], policy=policy).results == (ConfigResult(resource),)


def test_a_brokers_settings_are_judged_together_with_what_the_same_request_sets_for_all() -> None:
    def check(texts: Mapping[str, str]) -> None:
        if texts.get("max.connections") == "9" and texts.get("log.cleanup.policy") == "compact":
            raise SettingError("max.connections", "that cannot be meant")

    policy = ConfigPolicy(TopicPolicy(), BROKER_SETTINGS, check_broker=check)
    wanted = [
        (ALL_BROKERS, [Alteration("max.connections", AlterKind.SET, "9")]),
        (BROKER, [Alteration("log.cleanup.policy", AlterKind.SET, "compact")]),
    ]
    decision = incremental_alter_configs(IMAGE, wanted, policy=policy)
    assert decision.changes == (BrokerConfigsAltered(None, {"max.connections": "9"}),)
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "that cannot be meant")
    assert decision.results == (ConfigResult(ALL_BROKERS), ConfigResult(BROKER, refusal))


def test_settings_of_other_brokers_that_contradict_each_other_already_refuse_no_alteration() -> None:
    """A broker that was started with another file ignores such settings. Some may be those of a broker that is gone."""

    def check(texts: Mapping[str, str]) -> None:
        if texts.get("max.connections") == "9" and texts.get("log.cleanup.policy") == "compact":
            raise SettingError("max.connections", "that cannot be meant")

    policy = ConfigPolicy(TopicPolicy(), BROKER_SETTINGS, check_broker=check)
    contradictory = {"max.connections": "9", "log.cleanup.policy": "compact"}
    image = IMAGE.apply([BrokerConfigsAltered(1, contradictory), BrokerConfigsAltered(2, contradictory)])
    repaired = [Alteration("log.cleanup.policy", AlterKind.DELETE)]
    decision = incremental_alter_configs(image, [(BROKER, repaired)], policy=policy)
    assert decision.changes == (BrokerConfigsAltered(1, {"max.connections": "9"}),)
    image = image.apply(decision.changes)

    for_all = [Alteration("max.connections", AlterKind.SET, "8")]
    assert incremental_alter_configs(image, [(ALL_BROKERS, for_all)], policy=policy).results == (
        ConfigResult(ALL_BROKERS),
    )
    breaks_broker_1 = [Alteration("log.cleanup.policy", AlterKind.SET, "compact")]
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "that cannot be meant")
    assert incremental_alter_configs(image, [(ALL_BROKERS, breaks_broker_1)], policy=policy).results == (
        ConfigResult(ALL_BROKERS, refusal),
    )


def test_a_resource_or_a_setting_that_stands_twice_is_refused() -> None:
    once = (TOPIC, [Alteration("segment.ms", AlterKind.SET, "9")])
    decision = incremental_alter_configs(IMAGE, [once, once], policy=POLICY)
    assert decision.changes == ()
    assert all(
        result.refusal == Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        for result in decision.results
    )
    (result,) = alter(
        TOPIC, Alteration("segment.ms", AlterKind.SET, "9"), Alteration("segment.ms", AlterKind.DELETE)
    ).results
    assert result.refusal == Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


@pytest.mark.parametrize("resource", [TOPIC, BROKER])
def test_a_full_alteration_refuses_a_setting_that_stands_twice_and_one_without_a_value(resource: Resource) -> None:
    for configs, message in (
        ([("flush.ms", "1"), ("flush.ms", "2")], "Error due to duplicate config keys"),
        ([("flush.ms", "1"), ("flush.ms", None)], "Error due to duplicate config keys"),
        ([("flush.ms", None), ("segment.ms", "1")], "Null value not supported for: flush.ms"),
    ):
        decision = alter_configs(IMAGE, [(resource, configs)], policy=POLICY)
        refusal = Refusal(ErrorCode.INVALID_REQUEST, message)
        assert decision == MetadataDecision((), (ConfigResult(resource, refusal),))


texts: Any = st.dictionaries(
    st.sampled_from(["retention.ms", "segment.ms", "max.message.bytes", "flush.ms"]), st.integers(1, 99).map(str)
)


@given(texts, texts)
def test_altering_setting_by_setting_reaches_what_a_full_alteration_sets(
    first: dict[str, str], second: dict[str, str]
) -> None:
    def applied(image: ClusterImage, decision: MetadataDecision[ConfigResult]) -> ClusterImage:
        return image.apply(decision.changes)

    image = applied(IMAGE, alter_configs(IMAGE, [(TOPIC, list(first.items()))], policy=POLICY))
    full = applied(image, alter_configs(image, [(TOPIC, list(second.items()))], policy=POLICY))
    steps = [Alteration(name, AlterKind.DELETE) for name in first if name not in second]
    steps += [Alteration(name, AlterKind.SET, text) for name, text in second.items()]
    stepwise = applied(image, incremental_alter_configs(image, [(TOPIC, steps)], policy=POLICY))
    assert stepwise.topics == full.topics
    assert full.topics["orders"].configs == second
