"""Configs of topics, brokers and groups: described, and changed setting by setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.results import Results
from semel.client.config.common import as_text
from semel.client.machine.admin.ask import AnyBroker, Ask, Controller, NodeTarget, Target, outcome
from semel.wire.apis import ApiKey
from semel.wire.codes import ConfigSource
from semel.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)


class ConfigResourceType(IntEnum):
    """The kinds of resources that have configs, with their numbers on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_ASKED_OF_THEMSELVES: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource that has settings. The class methods make the usual ones."""

    type: ConfigResourceType
    name: str

    def __post_init__(self) -> None:
        if self.broker_id is None and self.name and self.type in _ASKED_OF_THEMSELVES:
            raise ValueError(f"{self}: a broker is named by its number")

    @property
    def broker_id(self) -> int | None:
        """The broker that must be asked, because only it knows its own settings; ``None`` for all other resources."""
        is_broker = self.type in _ASKED_OF_THEMSELVES and self.name.isdecimal()
        return int(self.name) if is_broker else None

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        return cls(ConfigResourceType.BROKER, str(broker_id))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """Return the resource of the defaults for brokers that have no value of their own."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ConfigResourceType.GROUP, group_id)

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name!r}" if self.name else f"every {kind}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. ``value`` is ``None`` if there is none, or if it is a secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The changes of one resource: see ``Configs.alter``."""

    values: Mapping[str, object] = field(default_factory=dict)
    append: Mapping[str, object] = field(default_factory=dict)
    subtract: Mapping[str, object] = field(default_factory=dict)


class Configs:
    """``admin.configs``: describe and change settings."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def describe(
        self, resource: ConfigResource, *, include_documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return every setting of a resource, by name, with the source of its value.

        entries = await admin.configs.describe(ConfigResource.topic("orders"))
        print(entries["retention.ms"].value)
        """
        return await self._requests.one(_describe(include_documentation), resource)

    async def describe_many(
        self, resources: Iterable[ConfigResource], *, include_documentation: bool = False
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of many resources, as ``describe`` does for one.

        await admin.configs.describe_many([ConfigResource.topic("orders"), ConfigResource.broker(1)])
        """
        return await self._requests.many(_describe(include_documentation), resources)

    async def alter(
        self,
        resource: ConfigResource,
        values: Mapping[str, object] | None = None,
        *,
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change single settings and leave the others alone. A value of ``None`` goes back to the default.

        ``append`` and ``subtract`` add and remove elements of settings that are lists.

        await admin.configs.alter(ConfigResource.topic("orders"), {"retention.ms": 60_000, "segment.ms": None})
        """
        change = ConfigChange(values or {}, append or {}, subtract or {})
        await self._requests.one(_alter({resource: change}, validate_only), resource)

    async def alter_many(
        self, changes: Mapping[ConfigResource, ConfigChange], *, validate_only: bool = False
    ) -> Results[ConfigResource, None]:
        """Change many resources, as ``alter`` does one. The changes of one resource are made together or not at all.

        await admin.configs.alter_many({ConfigResource.topic("orders"): ConfigChange({"retention.ms": 60_000})})
        """
        return await self._requests.many(_alter(changes, validate_only), changes)


def _described_by(resource: ConfigResource) -> Target:
    return AnyBroker() if resource.broker_id is None else NodeTarget(resource.broker_id)


def _altered_by(resource: ConfigResource) -> Target:
    return Controller() if resource.broker_id is None else NodeTarget(resource.broker_id)


def _describe(include_documentation: bool) -> Ask[ConfigResource, dict[str, ConfigEntry]]:
    return Ask(
        ApiKey.DESCRIBE_CONFIGS,
        target=_described_by,
        build=lambda resources, version: DescribeConfigsRequest(
            [DescribeConfigsResource(resource.type, resource.name, None) for resource in resources],
            include_documentation=include_documentation,
        ),
        read=lambda response, resources, version: [
            (
                ConfigResource(ConfigResourceType(result.resource_type), result.resource_name),
                outcome(
                    {config.name: _entry(config) for config in result.configs}, result.error_code, result.error_message
                ),
            )
            for result in response.results
        ],
        version_min=3 if include_documentation else None,
    )


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        config.documentation,
    )


class _Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def _alter(changes: Mapping[ConfigResource, ConfigChange], validate_only: bool) -> Ask[ConfigResource, None]:
    return Ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        target=_altered_by,
        build=lambda resources, version: IncrementalAlterConfigsRequest(
            [
                AlterConfigsResource(resource.type, resource.name, list(_operations(changes[resource])))
                for resource in resources
            ],
            validate_only,
        ),
        read=lambda response, resources, version: [
            (
                ConfigResource(ConfigResourceType(result.resource_type), result.resource_name),
                outcome(None, result.error_code, result.error_message),
            )
            for result in response.responses
        ],
    )


def _operations(change: ConfigChange) -> Iterator[AlterableConfig]:
    for name, value in change.values.items():
        if value is None:
            yield AlterableConfig(name, _Operation.DELETE, None)
        else:
            yield AlterableConfig(name, _Operation.SET, as_text(value))
    for operation, values in ((_Operation.APPEND, change.append), (_Operation.SUBTRACT, change.subtract)):
        for name, value in values.items():
            yield AlterableConfig(name, operation, as_text(value))
