"""Pure decisions about configs: AlterConfigs and IncrementalAlterConfigs.

A resource is altered as a whole or not at all, and is validated as a whole: its former configs with the alterations
applied. Topics have the settings of ``TOPIC_SETTINGS``; brokers have those that may be changed while they run; groups
and client metrics subscriptions have those of their kind. All except the topics' are arguments, because they are
declared in a higher layer. Error codes and messages are Apache Kafka's, except that Kafka stores a broker setting that
it does not know, and Semel refuses it. The levels of loggers belong to a process and not to the cluster: the broker
that receives the request alters its own (``broker.config.logger_levels``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, TypeAlias, TypeVar

from semel.errors import ErrorCode, KafkaError
from semel.log.config import TOPIC_SETTINGS
from semel.metadata.controller import MetadataDecision, Refusal, TopicPolicy, checked_topic_configs
from semel.metadata.image import (
    BrokerConfigsAltered,
    Change,
    ClientMetricsAltered,
    ClusterImage,
    GroupConfigsAltered,
    TopicAltered,
)
from semel.metadata.topic_names import check_topic_name
from semel.settings import Setting, SettingError, Settings, SettingType, Update


class ResourceType(IntEnum):
    """Kafka's numbers for the types of resources that have configs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterKind(IntEnum):
    """Kafka's numbers for the operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """A topic, a group or a client metrics subscription by name; a broker by its id; all brokers by an empty name."""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class Alteration:
    name: str
    kind: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class KindPolicy:
    """The rules for groups, or for client metrics subscriptions: their settings, and the error code of a refusal.

    ``check`` receives all configs that one resource would have, and raises ``SettingError`` if they contradict each
    other.
    """

    settings: Settings
    refusal: ErrorCode
    check: Callable[[Mapping[str, str]], object] = dict


@dataclass(frozen=True, slots=True)
class ConfigPolicy:
    """The rules for configs: those for topics, the broker's settings, and the texts with which it was started.

    ``check_broker`` receives all dynamic configs that one broker would have, and raises ``SettingError`` if they
    contradict each other.
    """

    topics: TopicPolicy
    broker_settings: Settings
    broker_texts: Mapping[str, str] = field(default_factory=dict)
    check_broker: Callable[[Mapping[str, str]], object] = dict
    groups: KindPolicy = KindPolicy(Settings("group", ()), ErrorCode.INVALID_CONFIG)
    client_metrics: KindPolicy = KindPolicy(Settings("client metrics", ()), ErrorCode.INVALID_REQUEST)


@dataclass(frozen=True, slots=True)
class ConfigResult:
    resource: Resource
    refusal: Refusal | None = None


def alter_configs(
    image: ClusterImage, resources: Sequence[tuple[Resource, Sequence[tuple[str, str | None]]]], *, policy: ConfigPolicy
) -> MetadataDecision[ConfigResult]:
    """AlterConfigs: replace all configs of each resource."""
    return _decide(image, resources, _replaced, policy)


def incremental_alter_configs(
    image: ClusterImage, resources: Sequence[tuple[Resource, Sequence[Alteration]]], *, policy: ConfigPolicy
) -> MetadataDecision[ConfigResult]:
    """IncrementalAlterConfigs: alter single configs of each resource and keep the others."""
    return _decide(image, resources, _altered, policy)


NAME_LENGTH_MAX: Final = 1024
"""The limit for the name of a group or a subscription with configs: it is part of a path in the metadata store."""

Wanted = TypeVar("Wanted")
Texts: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Target:
    """A resource that exists: its settings, its present configs, and a function that returns the change to others."""

    settings: Settings
    before: Mapping[str, str]
    default_text: Callable[[Setting], str]
    change: Callable[[Texts], Change]


def _decide(
    image: ClusterImage,
    resources: Sequence[tuple[Resource, Wanted]],
    rewrite: Callable[[_Target, Wanted], Texts],
    policy: ConfigPolicy,
) -> MetadataDecision[ConfigResult]:
    asked = Counter(resource for resource, _ in resources)
    changes: list[Change] = []
    results = []
    for resource, wanted in resources:
        refusal = None
        try:
            if asked[resource] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            target = _target(image, resource, policy)
            texts = rewrite(target, wanted)
            change = target.change(texts)
        except KafkaError as error:
            refusal = Refusal(error.code, error.message)
        else:
            if texts != target.before:
                changes.append(change)
                if isinstance(change, BrokerConfigsAltered):
                    image = image.apply([change])  # Later ones are judged together with it.
        results.append(ConfigResult(resource, refusal))
    return MetadataDecision(tuple(changes), tuple(results))


def _replaced(_target: _Target, configs: Sequence[tuple[str, str | None]]) -> Texts:
    _check_names([name for name, _ in configs])
    texts = {name: text for name, text in configs if text is not None}
    absent = [name for name, _ in configs if name not in texts]
    if absent:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {', '.join(absent)}")
    return texts


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def _altered(target: _Target, alterations: Sequence[Alteration]) -> Texts:
    _check_names([alteration.name for alteration in alterations])
    texts = dict(target.before)
    for alteration in alterations:
        name, kind, value = alteration.name, alteration.kind, alteration.value
        if kind == AlterKind.DELETE:
            texts.pop(name, None)
        elif value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {name}")
        elif kind == AlterKind.SET:
            texts[name] = value
        elif kind in (AlterKind.APPEND, AlterKind.SUBTRACT):
            texts[name] = _list_altered(target, name, AlterKind(kind), value)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {kind} for config {name}")
    return texts


def _list_altered(target: _Target, name: str, kind: AlterKind, value: str) -> str:
    setting = target.settings.get(name)
    if setting is None or setting.type is not SettingType.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {kind.name} to key {name} because its type is not LIST.")
    parts = _parts(target.before.get(name, target.default_text(setting)))
    named = _parts(value)
    if kind is AlterKind.APPEND:
        return ",".join(dict.fromkeys([*parts, *named]))
    return ",".join(part for part in parts if part not in named)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _target(image: ClusterImage, resource: Resource, policy: ConfigPolicy) -> _Target:
    match resource.type:
        case ResourceType.TOPIC:
            return _topic_target(image, resource.name, policy.topics)
        case ResourceType.BROKER:
            return _broker_target(image, resource.name, policy)
        case ResourceType.GROUP:
            return _named_target(resource.name, image.group_configs, policy.groups, GroupConfigsAltered)
        case ResourceType.CLIENT_METRICS:
            return _named_target(resource.name, image.client_metrics, policy.client_metrics, ClientMetricsAltered)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Configs of resource type {resource.type} cannot be altered; only those of topics (2), brokers (4), client "
        "metrics (16) and groups (32) can.",
    )


def _topic_target(image: ClusterImage, name: str, policy: TopicPolicy) -> _Target:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def default_text(setting: Setting) -> str:
        return ",".join(sorted(getattr(policy.log_defaults, setting.attribute)))

    def change(texts: Texts) -> Change:
        return TopicAltered(replace(topic, configs=checked_topic_configs(texts, policy)))

    return _Target(TOPIC_SETTINGS, topic.configs, default_text, change)


def _broker_target(image: ClusterImage, name: str, policy: ConfigPolicy) -> _Target:
    node_id = _node_id(image, name)

    def default_text(setting: Setting) -> str:
        text = policy.broker_texts.get(setting.name)
        return text if text is not None else setting.text(setting.default or ())

    def change(texts: Texts) -> Change:
        checked = _checked_broker_configs(texts, policy)
        before = image.broker_configs
        after = {**before, node_id: checked}
        judged = [node_id]
        if node_id is None:
            # Settings that contradict each other already are ignored by their broker, or the broker is gone. They must
            # not refuse what others are set to, and can be altered one after the other.
            judged += [broker for broker in before if broker is not None and not _contradiction(before, broker, policy)]
        for broker in judged:
            contradiction = _contradiction(after, broker, policy)
            if contradiction is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, contradiction)
        return BrokerConfigsAltered(node_id, checked)

    return _Target(policy.broker_settings, image.broker_configs.get(node_id, {}), default_text, change)


def _contradiction(
    configs: Mapping[int | None, Mapping[str, str]], broker: int | None, policy: ConfigPolicy
) -> str | None:
    """Return how the dynamic configs of a broker, or those of all brokers (``None``), contradict each other."""
    try:
        policy.check_broker({**configs.get(None, {}), **configs.get(broker, {})})
    except SettingError as error:
        return str(error)
    return None


def _named_target(
    name: str,
    known: Mapping[str, Mapping[str, str]],
    policy: KindPolicy,
    altered: Callable[[str, Mapping[str, str]], Change],
) -> _Target:
    """Return the target of a group or a client metrics subscription, which need not exist to have configs."""
    kind = policy.settings.kind
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The name of a {kind} resource must not be empty.")
    if len(name) > NAME_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The name of a {kind} resource has {len(name)} characters; at most {NAME_LENGTH_MAX} are allowed.",
        )

    def default_text(setting: Setting) -> str:
        return setting.text(setting.default or ())

    def change(texts: Texts) -> Change:
        try:
            policy.settings.parse(texts)
            policy.check(texts)
        except SettingError as error:
            raise KafkaError(policy.refusal, str(error)) from None
        return altered(name, texts)

    return _Target(policy.settings, known.get(name, {}), default_text, change)


def _node_id(image: ClusterImage, name: str) -> int | None:
    if not name:
        return None
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", name):  # A name like 01 would be a second name of broker 1.
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) not in image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    return int(name)


def _checked_broker_configs(texts: Texts, policy: ConfigPolicy) -> Texts:
    for name in texts:
        try:
            setting = policy.broker_settings.lookup(name)
        except SettingError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if setting.update is Update.READ_ONLY:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]")
    try:
        policy.broker_settings.parse(texts)
    except SettingError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return texts
