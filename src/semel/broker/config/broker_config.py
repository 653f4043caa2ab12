"""The settings of a broker.

Names, types and defaults are Apache Kafka's (4.3) wherever Kafka has the setting; where a default differs, the sentence
beside it says so. ``flush``, ``max.partitions``, ``queued.max.response.bytes`` and
``connections.max.stalled.ms`` are Semel's own. The settings that are defaults of topics
(``log.retention.hours`` and its like) stand in ``topic_defaults``; together they are ``config.log``.

A value comes from four places, and the later one wins: the default, the file and the command line (static), what was
altered for all brokers while running, what was altered for this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from semel.broker.config.topic_defaults import TOPIC_DEFAULTS, log_defaults
from semel.log.config import DAY_MS, HOUR_MS, MINUTE_MS, LogConfig
from semel.settings import (
    AtLeast,
    ListOf,
    OneOf,
    SettingError,
    Settings,
    SettingType,
    Update,
    declare,
    declared_in,
    parse_properties,
)
from semel.types import INT32_MAX

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

BOOLEAN, INT, SHORT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.SHORT, SettingType.LONG
STRING, LIST = SettingType.STRING, SettingType.LIST


class Flush(StrEnum):
    """What an acknowledgement promises: that the record is on disk, or that the operating system has it."""

    COMMIT = "commit"
    OS = "os"


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """What was set, where, as text."""

    static: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic: Mapping[str, str] = field(default_factory=dict)

    def effective(self) -> dict[str, str]:
        return {**self.static, **self.dynamic_default, **self.dynamic}


@dataclass(frozen=True, slots=True)
class _OneFolder:
    def allows(self, folders: tuple[str, ...]) -> bool:
        return len(folders) == 1 and bool(folders[0])

    def __str__(self) -> str:
        return "one folder: Semel keeps all partitions of a broker in one"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All settings of one broker, typed. ``log`` holds the defaults of its topics."""

    flush: Flush = declare(  # noqa: RUF009 (the value is frozen)
        "flush",
        STRING,
        "commit",
        "When a write is acknowledged: commit, once it is synced to disk (one sync for all that arrived meanwhile), or "
        "os, once the operating system has it, as in Apache Kafka. Semel's own. Internal topics are always synced.",
        rule=OneOf(("commit", "os")),
        read=Flush,
    )
    node_id: int = declare("node.id", INT, 1, "The number of this broker. Kafka has no default.", rule=AtLeast(0))
    broker_rack: str | None = declare(
        "broker.rack", STRING, None, "Where this broker stands; replicas of a partition are spread over racks."
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
        "num.partitions", INT, 1, "How many partitions a topic gets when nobody says.", rule=AtLeast(1)
    )
    default_replication_factor: int = declare(
        "default.replication.factor", INT, 1, "How many replicas a topic gets when nobody says.", rule=AtLeast(1)
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

    # Connections and requests
    socket_request_max_bytes: int = declare(
        "socket.request.max.bytes", INT, 100 * 2**20, "The largest request that is read.", rule=AtLeast(1)
    )
    connections_max_idle_ms: int = declare(
        "connections.max.idle.ms", LONG, 10 * MINUTE_MS, "After this time without a request a connection is closed."
    )
    connections_max_stalled_ms: int = declare(
        "connections.max.stalled.ms",
        LONG,
        30_000,
        "After this time a connection is closed whose client reads nothing of a large answer, or sends nothing of a "
        "request that it began. After one second, while other requests wait for the memory. Semel's own.",
        rule=AtLeast(1),
    )
    max_connections: int = declare(
        "max.connections",
        INT,
        1000,
        "How many connections may be open at once. Kafka sets no limit; here every one holds memory and a descriptor.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    max_connections_per_ip: int = declare(
        "max.connections.per.ip",
        INT,
        500,
        "How many of them may come from one address, so that none can take all. Kafka sets no limit.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    queued_max_request_bytes: int = declare(
        "queued.max.request.bytes",
        LONG,
        128 * 2**20,
        "How many bytes of large requests may be arriving before nothing more of such requests is read. Kafka sets no "
        "limit (-1).",
        rule=AtLeast(1),
    )
    queued_max_response_bytes: int = declare(
        "queued.max.response.bytes",
        LONG,
        128 * 2**20,
        "How many bytes of answers may wait for clients to read them, over all connections, before requests with "
        "large answers wait. An answer to Fetch may have a sixteenth of what is left. Semel's own.",
        rule=AtLeast(1),
    )
    fetch_max_bytes: int = declare(
        "fetch.max.bytes",
        INT,
        55 * 2**20,
        "The most record bytes in one answer to Fetch; a first batch that is larger is still sent whole.",
        rule=AtLeast(1024),
    )
    max_incremental_fetch_session_cache_slots: int = declare(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many incremental fetch sessions are remembered.",
        rule=AtLeast(0),
    )

    # Upkeep of the logs
    log_retention_check_interval_ms: int = declare(
        "log.retention.check.interval.ms",
        LONG,
        5 * MINUTE_MS,
        "How often it is checked whether old segments can go.",
        rule=AtLeast(1),
    )
    log_cleaner_enable: bool = declare(
        "log.cleaner.enable", BOOLEAN, True, "Whether compaction runs. Without it compacted topics only grow."
    )
    log_cleaner_backoff_ms: int = declare(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long compaction rests when no log needs it.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = declare(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * 2**20,
        "The memory that one round of compaction may use to remember keys.",
        rule=AtLeast(2**20),
        update=Update.CLUSTER_WIDE,
    )
    log_flush_offset_checkpoint_interval_ms: int = declare(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "How often the recovery points are written, from which a start after a crash reads on; also every 64 MB.",
        rule=AtLeast(0),
    )
    log_flush_start_offset_checkpoint_interval_ms: int = declare(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        MINUTE_MS,
        "Accepted as in Kafka, and of no effect: start offsets go with the recovery points, and when they move.",
        rule=AtLeast(0),
    )

    # Producers and transactions
    producer_id_expiration_ms: int = declare(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "After this time without a write a partition forgets a producer, unless it has a transaction open.",
        rule=AtLeast(1),
        update=Update.CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms: int = declare(
        "producer.id.expiration.check.interval.ms",
        INT,
        10 * MINUTE_MS,
        "How often partitions look for producers to forget.",
        rule=AtLeast(1),
    )
    transaction_version: int = declare(
        "transaction.version",
        SHORT,
        2,
        "The protocol of transactions that clients are offered: 2, in which every transaction has its own epoch, or 1 "
        "or 0 to keep them to the older one. Semel's own: in Kafka it is a feature of the cluster and no setting.",
        rule=OneOf((0, 1, 2)),
    )
    transaction_max_timeout_ms: int = declare(
        "transaction.max.timeout.ms",
        INT,
        15 * MINUTE_MS,
        "The longest transaction timeout that a producer may ask for.",
        rule=AtLeast(1),
    )
    transactional_id_expiration_ms: int = declare(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "After this time without a transaction a transactional id is forgotten.",
        rule=AtLeast(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = declare(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often it is checked which transactions have timed out.",
        rule=AtLeast(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = declare(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        HOUR_MS,
        "How often it is checked which transactional ids have expired.",
        rule=AtLeast(1),
    )
    transaction_state_log_num_partitions: int = declare(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "The partitions of __transaction_state. It must not change once the topic exists.",
        rule=AtLeast(1),
    )
    transaction_state_log_replication_factor: int = declare(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "The replicas of __transaction_state; with fewer brokers, as many as there are.",
        rule=AtLeast(1),
    )
    transaction_state_log_min_isr: int = declare(
        "transaction.state.log.min.isr",
        INT,
        2,
        "min.insync.replicas of __transaction_state; never more than it has replicas.",
        rule=AtLeast(1),
    )
    transaction_state_log_segment_bytes: int = declare(
        "transaction.state.log.segment.bytes",
        INT,
        100 * 2**20,
        "segment.bytes of __transaction_state.",
        rule=AtLeast(1),
    )

    # Groups and their offsets
    offsets_topic_num_partitions: int = declare(
        "offsets.topic.num.partitions",
        INT,
        50,
        "The partitions of __consumer_offsets. It must not change once the topic exists.",
        rule=AtLeast(1),
    )
    offsets_topic_replication_factor: int = declare(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "The replicas of __consumer_offsets; with fewer brokers, as many as there are.",
        rule=AtLeast(1),
    )
    offsets_topic_segment_bytes: int = declare(
        "offsets.topic.segment.bytes", INT, 100 * 2**20, "segment.bytes of __consumer_offsets.", rule=AtLeast(1)
    )
    offsets_retention_minutes: int = declare(
        "offsets.retention.minutes", INT, 7 * 24 * 60, "How long an empty group's offsets are kept.", rule=AtLeast(1)
    )
    offsets_retention_check_interval_ms: int = declare(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often it is checked which offsets have expired.",
        rule=AtLeast(1),
    )
    offset_metadata_max_bytes: int = declare(
        "offset.metadata.max.bytes", INT, 4096, "The longest metadata text beside a committed offset."
    )
    group_initial_rebalance_delay_ms: int = declare(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long the first rebalance of an empty group waits for more members (classic protocol).",
    )
    group_min_session_timeout_ms: int = declare(
        "group.min.session.timeout.ms", INT, 6000, "The shortest session timeout of a member (classic protocol)."
    )
    group_max_session_timeout_ms: int = declare(
        "group.max.session.timeout.ms",
        INT,
        30 * MINUTE_MS,
        "The longest session timeout of a member (classic protocol).",
    )
    group_max_size: int = declare(
        "group.max.size", INT, INT32_MAX, "How many members a group may have (classic protocol).", rule=AtLeast(1)
    )
    group_consumer_session_timeout_ms: int = declare(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "After this time without a heartbeat a member is out (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_heartbeat_interval_ms: int = declare(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members are told to send a heartbeat (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_min_session_timeout_ms: int = declare(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The least that group.consumer.session.timeout.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_session_timeout_ms: int = declare(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The most that group.consumer.session.timeout.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_min_heartbeat_interval_ms: int = declare(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "The least that group.consumer.heartbeat.interval.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_heartbeat_interval_ms: int = declare(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The most that group.consumer.heartbeat.interval.ms may be (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_max_size: int = declare(
        "group.consumer.max.size",
        INT,
        INT32_MAX,
        "How many members a group may have (consumer protocol).",
        rule=AtLeast(1),
    )
    group_consumer_assignors: tuple[str, ...] = declare(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that a group may use, the first by default (consumer protocol).",
        rule=ListOf(("uniform", "range")),
    )
    group_consumer_migration_policy: str = declare(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group that has members may change from the classic to the consumer protocol (upgrade), back "
        "(downgrade), both ways (bidirectional) or not at all (disabled).",
        rule=OneOf(("bidirectional", "upgrade", "downgrade", "disabled")),
    )
    group_version: int = declare(
        "group.version",
        SHORT,
        1,
        "The protocol of groups that clients are offered: 1, the consumer protocol (KIP-848) beside the classic one, "
        "or 0, the classic one only. Semel's own: in Kafka it is a feature of the cluster and no setting.",
        rule=OneOf((0, 1)),
    )

    log: LogConfig = field(default=LogConfig(), kw_only=True)
    sources: ConfigSources = field(default=ConfigSources(), kw_only=True)

    @classmethod
    def load(cls, file_text: str = "", overrides: Mapping[str, str] = _NOTHING) -> BrokerConfig:
        """The settings of a ``.properties`` text and, over them, those of the command line. Raises ``SettingError``."""
        static = {**_current_names(parse_properties(file_text)), **_current_names(overrides)}
        return _build(ConfigSources(static=static))

    def altered(self, *, dynamic_default: Mapping[str, str], dynamic: Mapping[str, str]) -> BrokerConfig:
        """The same broker with what was altered while it runs: for all brokers, and over it for this one."""
        return _build(replace(self.sources, dynamic_default=dict(dynamic_default), dynamic=dict(dynamic)))


def _build(sources: ConfigSources) -> BrokerConfig:
    texts = sources.effective()
    attributes = BROKER_SETTINGS.attributes(texts)
    own: dict[str, Any] = {name: value for name, value in attributes.items() if name in _OWN_ATTRIBUTES}
    config = BrokerConfig(**own, log=log_defaults(texts), sources=sources)
    config.log.check()
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise SettingError(
            "group.min.session.timeout.ms",
            f"group.min.session.timeout.ms ({config.group_min_session_timeout_ms}) is larger than "
            f"group.max.session.timeout.ms ({config.group_max_session_timeout_ms}): no member could join",
        )
    if config.group_consumer_heartbeat_interval_ms >= config.group_consumer_session_timeout_ms:
        raise SettingError(
            "group.consumer.heartbeat.interval.ms",
            f"group.consumer.heartbeat.interval.ms ({config.group_consumer_heartbeat_interval_ms}) must be smaller "
            f"than group.consumer.session.timeout.ms ({config.group_consumer_session_timeout_ms})",
        )
    _check_bounds(
        "group.consumer.session.timeout.ms",
        config.group_consumer_min_session_timeout_ms,
        config.group_consumer_session_timeout_ms,
        config.group_consumer_max_session_timeout_ms,
    )
    _check_bounds(
        "group.consumer.heartbeat.interval.ms",
        config.group_consumer_min_heartbeat_interval_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_max_heartbeat_interval_ms,
    )
    return config


def _check_bounds(name: str, minimum: int, value: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        bound = name.removeprefix("group.consumer.")
        raise SettingError(
            name,
            f"{name} ({value}) must be between group.consumer.min.{bound} ({minimum}) and "
            f"group.consumer.max.{bound} ({maximum})",
        )


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


_ONE_LOOP = "Semel serves all connections on one event loop and has no such threads"
_LISTEN = "where to listen is given on the command line, with --listen and --advertise"

_OWN: Final = declared_in(BrokerConfig)
_OWN_ATTRIBUTES: Final = frozenset(setting.attribute for setting in _OWN)
BROKER_SETTINGS: Final = Settings(
    "broker",
    [*_OWN, *TOPIC_DEFAULTS],
    absent={
        "listeners": _LISTEN,
        "advertised.listeners": _LISTEN,
        "listener.": _LISTEN,
        "port": _LISTEN,
        "host.name": _LISTEN,
        "num.network.threads": _ONE_LOOP,
        "num.io.threads": _ONE_LOOP,
        "num.replica.fetchers": _ONE_LOOP,
        "background.threads": _ONE_LOOP,
        "log.cleaner.threads": _ONE_LOOP,
        "num.recovery.threads.per.data.dir": _ONE_LOOP,
        "process.roles": "every broker is its own controller, or shares it through ZooKeeper",
        "controller.": "every broker is its own controller, or shares it through ZooKeeper",
        "remote.": "Semel has no tiered storage",
        "log.local.": "Semel has no tiered storage",
        "log.message.format.version": "Kafka 4 has no such setting: message format 2 is the only one",
        "inter.broker.protocol.version": "Kafka 4 has no such setting",
        "authorizer.class.name": "Semel loads no classes named in a configuration",
    },
)
