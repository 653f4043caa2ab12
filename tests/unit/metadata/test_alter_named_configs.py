"""Altering the configs of groups and of subscriptions to client metrics: by their names, which need not exist."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode
from semel.metadata.alter_configs import (
    Alteration,
    AlterKind,
    ConfigPolicy,
    ConfigResult,
    KindPolicy,
    Resource,
    ResourceType,
    alter_configs,
    incremental_alter_configs,
)
from semel.metadata.controller import MetadataDecision, Refusal, TopicPolicy
from semel.metadata.image import ClientMetricsAltered, ClusterImage, GroupConfigsAltered
from semel.settings import AtLeast, Setting, SettingError, Settings, SettingType

SESSION = Setting(name="consumer.session.timeout.ms", type=SettingType.INT, default=45_000, doc="", rule=AtLeast(1))
METRICS = Setting(name="metrics", type=SettingType.LIST, default=(), doc="")


def refuse_seven(configs: object) -> None:
    if configs == {SESSION.name: "7"}:
        raise SettingError(SESSION.name, "seven is not allowed")


POLICY = ConfigPolicy(
    TopicPolicy(),
    Settings("broker", ()),
    groups=KindPolicy(
        Settings("group", [SESSION], absent={"share.": "no share groups"}), ErrorCode.INVALID_CONFIG, refuse_seven
    ),
    client_metrics=KindPolicy(Settings("client metrics", [METRICS]), ErrorCode.INVALID_REQUEST),
)
IMAGE = ClusterImage("cluster").apply(
    [GroupConfigsAltered("g", {SESSION.name: "50000"}), ClientMetricsAltered("m", {"metrics": "a"})]
)
GROUP, SUBSCRIPTION = Resource(ResourceType.GROUP, "g"), Resource(ResourceType.CLIENT_METRICS, "m")


def alter(resource: Resource, *alterations: Alteration) -> MetadataDecision[ConfigResult]:
    return incremental_alter_configs(IMAGE, [(resource, alterations)], policy=POLICY)


def test_a_group_that_does_not_exist_yet_can_have_settings() -> None:
    new = Resource(ResourceType.GROUP, "new")
    decision = alter(new, Alteration(SESSION.name, AlterKind.SET, "51000"))
    assert decision == MetadataDecision((GroupConfigsAltered("new", {SESSION.name: "51000"}),), (ConfigResult(new),))


def test_a_group_without_settings_is_forgotten() -> None:
    decision = alter(GROUP, Alteration(SESSION.name, AlterKind.DELETE))
    assert decision.changes == (GroupConfigsAltered("g", {}),)
    assert IMAGE.apply(decision.changes).group_configs == {}


def test_to_delete_what_is_not_set_changes_nothing() -> None:
    assert alter(Resource(ResourceType.GROUP, "new"), Alteration("share.x", AlterKind.DELETE)).changes == ()


def test_a_list_of_a_subscription_is_appended_to() -> None:
    decision = alter(SUBSCRIPTION, Alteration("metrics", AlterKind.APPEND, "b"))
    assert decision.changes == (ClientMetricsAltered("m", {"metrics": "a,b"}),)


def test_alter_configs_replaces_all_that_is_set() -> None:
    decision = alter_configs(IMAGE, [(GROUP, []), (SUBSCRIPTION, [("metrics", "c")])], policy=POLICY)
    assert decision.changes == (GroupConfigsAltered("g", {}), ClientMetricsAltered("m", {"metrics": "c"}))


@pytest.mark.parametrize(
    ("resource", "name", "value", "code", "message"),
    [
        (GROUP, "bogus", "1", ErrorCode.INVALID_CONFIG, "Unknown group config name: bogus"),
        (GROUP, "share.x", "1", ErrorCode.INVALID_CONFIG, "Unknown group config name: share.x; no share groups"),
        (
            GROUP,
            SESSION.name,
            "x",
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration consumer.session.timeout.ms: not a number of type INT",
        ),
        (GROUP, SESSION.name, "7", ErrorCode.INVALID_CONFIG, "seven is not allowed"),
        (SUBSCRIPTION, "bogus", "1", ErrorCode.INVALID_REQUEST, "Unknown client metrics config name: bogus"),
        (
            Resource(ResourceType.GROUP, ""),
            SESSION.name,
            "1",
            ErrorCode.INVALID_REQUEST,
            "The name of a group resource must not be empty.",
        ),
        (
            Resource(ResourceType.GROUP, "g" * 1025),
            SESSION.name,
            "1",
            ErrorCode.INVALID_REQUEST,
            "The name of a group resource has 1025 characters; at most 1024 are allowed.",
        ),
    ],
)
def test_what_breaks_a_rule_is_refused(
    resource: Resource, name: str, value: str, code: ErrorCode, message: str
) -> None:
    decision = alter(resource, Alteration(name, AlterKind.SET, value))
    assert decision == MetadataDecision((), (ConfigResult(resource, Refusal(code, message)),))


def test_a_null_value_is_refused() -> None:
    decision = alter_configs(IMAGE, [(GROUP, [(SESSION.name, None)])], policy=POLICY)
    message = "Null value not supported for: consumer.session.timeout.ms"
    assert decision.results == (ConfigResult(GROUP, Refusal(ErrorCode.INVALID_REQUEST, message)),)
