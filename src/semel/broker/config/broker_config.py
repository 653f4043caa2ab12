"""The settings of a broker.

Names, types and defaults are Apache Kafka's (4.3) wherever Kafka has the setting; where a default differs, its
description says so. ``flush``, ``max.partitions``, ``queued.max.response.bytes`` and ``connections.max.stalled.ms`` are
Semel's own. The settings that are defaults of topics (such as ``log.retention.hours``) are in ``topic_defaults``;
``config.log`` holds the values of all of them.

A value comes from one of four places, of which the later one wins: the default; the file and the command line (static);
the dynamic value for all brokers; the dynamic value for this broker. A request for dynamic values that contradict other
settings is refused (``metadata.alter_configs``). But after a restart with another file, or on a broker with other
settings than the one that was asked, they may still contradict its own. As in Apache Kafka, that stops no broker: the
dynamic values that cannot be applied are ignored, and this is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from semel.broker.config.audit_config import AuditConfig
from semel.broker.config.authorization_config import AuthorizationConfig
from semel.broker.config.connection_config import ConnectionConfig
from semel.broker.config.group_config import GroupConfig
from semel.broker.config.ignored_settings import IGNORED_SETTINGS
from semel.broker.config.listener_config import ListenerConfig, of_one_listener
from semel.broker.config.maintenance_config import MaintenanceConfig
from semel.broker.config.quota_config import QuotaConfig
from semel.broker.config.replication_config import ReplicationConfig
from semel.broker.config.sasl_config import SaslConfig
from semel.broker.config.topic_defaults import TOPIC_DEFAULTS, log_defaults
from semel.broker.config.transaction_config import TransactionConfig
from semel.log.config import LogConfig
from semel.settings import (
    AtLeast,
    OneOf,
    Setting,
    SettingError,
    Settings,
    SettingType,
    Update,
    declare,
    declared_in,
    parse_properties,
)

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

logger = logging.getLogger("semel.broker")

BOOLEAN, INT, SHORT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.SHORT, SettingType.LONG
STRING, LIST = SettingType.STRING, SettingType.LIST


class FlushPolicy(StrEnum):
    """When a write is acknowledged: once it is synced to disk (COMMIT), or once the operating system has it (OS)."""

    COMMIT = "commit"
    OS = "os"


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """The texts of all settings that are set, by where they were set. ``repr`` hides them: some are passwords."""

    static: Mapping[str, str] = field(default_factory=dict, repr=False)
    dynamic_default: Mapping[str, str] = field(default_factory=dict, repr=False)
    dynamic: Mapping[str, str] = field(default_factory=dict, repr=False)

    def effective(self) -> dict[str, str]:
        return {**self.static, **self.dynamic_default, **self.dynamic}


@dataclass(frozen=True, slots=True)
class _OneFolder:
    def allows(self, folders: tuple[str, ...]) -> bool:
        return len(folders) == 1 and bool(folders[0])

    def __str__(self) -> str:
        return "one folder: Semel keeps all partitions of a broker in one"


@dataclass(frozen=True, slots=True)
class _ConnectString:
    def allows(self, text: str | None) -> bool:
        if text is None:
            return True
        servers, slash, chroot = text.partition("/")
        if slash and (not chroot or chroot.endswith("/") or "//" in chroot):
            return False
        return all(_is_host_and_port(server) for server in servers.split(","))

    def __str__(self) -> str:
        return "HOST:PORT[,HOST:PORT...][/CHROOT]"


def _is_host_and_port(server: str) -> bool:
    host, colon, port = server.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdigit() and 0 < int(port) <= 65_535


@dataclass(frozen=True)
class BrokerConfig(
    ListenerConfig,
    ConnectionConfig,
    SaslConfig,
    AuthorizationConfig,
    MaintenanceConfig,
    ReplicationConfig,
    TransactionConfig,
    GroupConfig,
    QuotaConfig,
    AuditConfig,
):
    """All settings of one broker, typed, each subject declared in a file of its own.

    ``log`` holds the defaults of topics.
    """

    flush: FlushPolicy = declare(  # noqa: RUF009 (the value is frozen)
        "flush",
        STRING,
        "commit",
        "When a write is acknowledged: commit, once it is synced to disk (one sync for all that arrived meanwhile), or "
        "os, once the operating system has it, as in Apache Kafka. Semel's own. Internal topics are always synced.",
        rule=OneOf(("commit", "os")),
        read=FlushPolicy,
    )
    node_id: int = declare("node.id", INT, 1, "The number of this broker. Kafka has no default.", rule=AtLeast(0))
    zookeeper_connect: str | None = declare(
        "zookeeper.connect",
        STRING,
        None,
        "The ZooKeeper that makes several brokers one cluster: HOST:PORT[,HOST:PORT...][/CHROOT]. Without it this "
        "broker is a cluster of its own, and needs no ZooKeeper. Kafka had this setting until version 3.",
        rule=_ConnectString(),
    )
    zookeeper_session_timeout_ms: int = declare(
        "zookeeper.session.timeout.ms",
        INT,
        6000,
        "After this time without a word from a broker the cluster goes on without it. Kafka 3 has 18000.",
        rule=AtLeast(1),
    )
    zookeeper_connection_timeout_ms: int = declare(
        "zookeeper.connection.timeout.ms",
        INT,
        10_000,
        "How long a start waits for ZooKeeper. Kafka 3 takes the session timeout where this is not set.",
        rule=AtLeast(1),
    )
    broker_rack: str | None = declare(
        "broker.rack",
        STRING,
        None,
        "Where this broker stands. The replicas of a new partition are spread over the racks, and clients are told.",
    )
    log_dirs: tuple[str, ...] = declare(
        "log.dirs",
        LIST,
        ("semel-data",),
        "The folder that holds all data of this broker. Kafka takes several and defaults to one below /tmp.",
        rule=_OneFolder(),
    )

    # Topics
    num_partitions: int = declare(
        "num.partitions", INT, 1, "How many partitions a topic gets where a request does not say.", rule=AtLeast(1)
    )
    default_replication_factor: int | None = declare(
        "default.replication.factor",
        INT,
        None,
        "How many replicas a topic gets where a request does not say. Where it is not set: 3 in a cluster of three "
        "brokers and more, also while some are away (a topic is refused then, if fewer than 3 are there), else 1. "
        "Kafka has 1.",
        rule=AtLeast(1),
    )
    auto_create_topics_enable: bool = declare(
        "auto.create.topics.enable", BOOLEAN, True, "Whether asking for the metadata of an unknown topic may create it."
    )
    delete_topic_enable: bool = declare(
        "delete.topic.enable", BOOLEAN, True, "Whether topics can be deleted by clients."
    )
    max_partitions: int = declare(
        "max.partitions",
        INT,
        100_000,
        "How many partitions the cluster may hold; what would exceed it is refused with POLICY_VIOLATION. Semel's own.",
        rule=AtLeast(1),
        update=Update.CLUSTER_WIDE,
    )

    log: LogConfig = field(default=LogConfig(), kw_only=True)
    sources: ConfigSources = field(default=ConfigSources(), kw_only=True)

    @classmethod
    def load(cls, file_text: str = "", overrides: Mapping[str, str] = _NOTHING) -> BrokerConfig:
        """Return the settings of a ``.properties`` text, overridden by those of the command line (``overrides``).

        Raises ``SettingError``.
        """
        static = {**_current_names(parse_properties(file_text)), **_current_names(overrides)}
        return _build(ConfigSources(static=static))

    def altered(self, *, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> BrokerConfig:
        """Return this config with the dynamic settings: those for all brokers, overridden by those for this broker."""
        return _build(replace(self.sources, dynamic_default=dict(dynamic_default), dynamic=dict(dynamic)))

    def with_dynamic_configs(self, configs: Mapping[int | None, Mapping[str, str]]) -> BrokerConfig:
        """Return these settings with the dynamic ones: those for all brokers (``None``), and those of this broker."""
        of_all, own = configs.get(None, {}), configs.get(self.node_id, {})
        try:
            return self.altered(dynamic_default=of_all, dynamic=own)
        except SettingError as error:
            logger.error("the settings altered for this broker cannot be applied, and are ignored: %s", error)
        try:
            return self.altered(dynamic_default=of_all, dynamic={})
        except SettingError as error:
            logger.error("the settings altered for all brokers cannot be applied, and are ignored: %s", error)
        return self.altered(dynamic_default={}, dynamic={})

    def for_listener(self, listener: str) -> BrokerConfig:
        """Return the settings for one listener: those with its prefix override those without."""
        texts = self.sources.effective()
        own = {
            setting: text
            for name, text in texts.items()
            if (parts := of_one_listener(name)) is not None and parts[0] == listener.lower()
            for setting in parts[1:]
        }
        return _build(ConfigSources(static={**texts, **own})) if own else self


def _build(sources: ConfigSources) -> BrokerConfig:
    texts = sources.effective()
    attributes = BROKER_SETTINGS.attributes(texts)
    own: dict[str, Any] = {name: value for name, value in attributes.items() if name in _OWN_ATTRIBUTES}
    config = BrokerConfig(**own, log=log_defaults(texts), sources=sources)
    config.log.check()
    config.check()
    return config


_OLDER_NAMES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}


def _current_names(texts: Mapping[str, str]) -> dict[str, str]:
    current = {name: text for name, text in texts.items() if name not in _OLDER_NAMES}
    for name, text in texts.items():
        if name in _OLDER_NAMES and current.setdefault(_OLDER_NAMES[name], text) != text:
            newer = _OLDER_NAMES[name]
            raise SettingError(
                name, f"{name} ({text}) and {newer} ({current[newer]}) are one setting; set only {newer}"
            )
    return current


class _BrokerSettings(Settings):
    """The declared settings; ``lookup`` also finds those of one listener, ``listener.name.<listener>.<setting>``."""

    def lookup(self, name: str) -> Setting:
        parts = of_one_listener(name)
        return super().lookup(name) if parts is None else replace(super().lookup(parts[1]), name=name)


_LISTEN = "Kafka 3 and later have no such setting: listeners, or --listen and --advertise of the command line"
_CONTROLLER = "one of the brokers is the controller, and there are no nodes for that alone"
_PEM = "PEM files have no password of their own; that of the key is ssl.key.password"

_OWN: Final = declared_in(BrokerConfig)
_OWN_ATTRIBUTES: Final = frozenset(setting.attribute for setting in _OWN)
BROKER_SETTINGS: Final = _BrokerSettings(
    "broker",
    [*_OWN, *TOPIC_DEFAULTS, *IGNORED_SETTINGS],
    absent={
        "ssl.keystore.password": _PEM,
        "ssl.truststore.password": _PEM,
        "port": _LISTEN,
        "host.name": _LISTEN,
        "process.roles": _CONTROLLER,
        "controller.": _CONTROLLER,
        "remote.": "Semel has no tiered storage",
        "log.local.": "Semel has no tiered storage",
        "log.message.format.version": "Kafka 4 has no such setting: message format 2 is the only one",
        "inter.broker.protocol.version": "Kafka 4 has no such setting",
    },
)
