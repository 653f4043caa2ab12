"""The settings of one group (resource type 32), which override the broker's settings. Pure.

They are settings of the consumer protocol (KIP-848). A group need not exist to have them. If the broker restarts with
other bounds, a value that was allowed when it was set may be outside of them: then the nearest bound is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.coordinator.group.settings import ConsumerSettings, MigrationPolicy
from semel.settings import AtLeast, Between, Setting, SettingError, Settings, SettingType, Synonym, Update

_SESSION: Final = "consumer.session.timeout.ms"
_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
_ASSIGNMENT: Final = "consumer.assignment.interval.ms"

_NO_SHARE: Final = "Semel has no share groups"
_NO_STREAMS: Final = "Semel has no streams groups: Kafka Streams uses the classic protocol here"

GROUP_SETTINGS: Final = Settings(
    "group",
    [
        Setting(
            name=_SESSION,
            type=SettingType.INT,
            default=45_000,
            doc="After this time without a heartbeat a member of the group is out (consumer protocol).",
            rule=AtLeast(1),
            update=Update.CLUSTER_WIDE,
            synonyms=(Synonym("group.consumer.session.timeout.ms"),),
        ),
        Setting(
            name=_HEARTBEAT,
            type=SettingType.INT,
            default=5000,
            doc="How often members of the group are told to send a heartbeat (consumer protocol).",
            rule=AtLeast(1),
            update=Update.CLUSTER_WIDE,
            synonyms=(Synonym("group.consumer.heartbeat.interval.ms"),),
        ),
        Setting(
            name=_ASSIGNMENT,
            type=SettingType.INT,
            default=1000,
            doc="A group's target assignment is computed with the heartbeat that calls for it: 0 says so, and no other "
            "value can be set. Kafka waits so long between two of them.",
            rule=Between(0, 15_000),
            update=Update.CLUSTER_WIDE,
            synonyms=(Synonym("group.consumer.assignment.interval.ms"),),
        ),
    ],
    absent={"share.": _NO_SHARE, "streams.": _NO_STREAMS},
)


def consumer_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of the consumer protocol for a group with these overrides, within the broker's bounds."""
    session_ms, heartbeat_ms = config.group_consumer_session_timeout_ms, config.group_consumer_heartbeat_interval_ms
    if overrides:
        values = GROUP_SETTINGS.parse({name: text for name, text in overrides.items() if name in GROUP_SETTINGS})
        session_ms = _within(
            values.get(_SESSION, session_ms),
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        )
        heartbeat_ms = _within(
            values.get(_HEARTBEAT, heartbeat_ms),
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        )
    return ConsumerSettings(
        heartbeat_interval_ms=heartbeat_ms,
        session_timeout_ms=session_ms,
        size_max=config.group_consumer_max_size,
        assignors=config.group_consumer_assignors,
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy),
    )


def check_group_overrides(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise ``SettingError`` if a value is outside the broker's bounds, or if two values contradict each other."""
    values = GROUP_SETTINGS.parse(overrides)
    if values.get(_ASSIGNMENT):
        raise SettingError(
            _ASSIGNMENT,
            f"{_ASSIGNMENT} ({values[_ASSIGNMENT]}) must be 0: Semel computes a group's target assignment with the "
            "heartbeat that calls for it",
        )
    for name, minimum, maximum in (
        (_SESSION, config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms),
        (_HEARTBEAT, config.group_consumer_min_heartbeat_interval_ms, config.group_consumer_max_heartbeat_interval_ms),
    ):
        value = values.get(name)
        bound = name.removeprefix("consumer.")
        if isinstance(value, int) and value < minimum:
            raise SettingError(
                name, f"{name} ({value}) must be greater than or equal to group.consumer.min.{bound} ({minimum})"
            )
        if isinstance(value, int) and value > maximum:
            raise SettingError(
                name, f"{name} ({value}) must be less than or equal to group.consumer.max.{bound} ({maximum})"
            )
    settings = consumer_settings(config, overrides)
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise SettingError(
            _HEARTBEAT,
            f"{_HEARTBEAT} ({settings.heartbeat_interval_ms}) must be less than {_SESSION} "
            f"({settings.session_timeout_ms})",
        )


def _within(value: object, minimum: int, maximum: int) -> int:
    assert isinstance(value, int), value
    return max(minimum, min(value, maximum))
