"""The broker's settings that are the defaults of its topics' settings.

They are derived from the declarations of the topics' settings. For example, ``retention.ms`` declares the synonyms
``log.retention.ms``, ``log.retention.minutes`` and ``log.retention.hours``: the first that is set decides, and the last
holds the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from semel.log.config import HOUR_MS, TOPIC_SETTINGS, LogConfig
from semel.settings import Setting, SettingType, Synonym, Update, Value


def log_defaults(texts: Mapping[str, str]) -> LogConfig:
    """Return the settings of a topic without configs of its own, from the broker's settings.

    Raises ``SettingError``.
    """
    by_name = {setting.name: setting for setting in TOPIC_DEFAULTS}
    values: dict[str, str] = {}
    for topic_setting in TOPIC_SETTINGS.values():
        for synonym in topic_setting.synonyms:
            if synonym.name in texts:
                value = by_name[synonym.name].parse(texts[synonym.name])
                values[topic_setting.name] = topic_setting.text(in_topic_units(synonym, value))
                break
    return LogConfig.from_settings(values)


def in_topic_units(synonym: Synonym, value: Value) -> Value:
    """Return a broker's value in the unit of the topic's setting: hours become milliseconds, -1 (no limit) stays."""
    return value * synonym.factor if synonym.factor != 1 and isinstance(value, int) and value > 0 else value


def _derived(topic_setting: Setting) -> list[Setting]:
    settings: list[Setting] = []
    for synonym in topic_setting.synonyms:
        default = topic_setting.default if synonym is topic_setting.synonyms[-1] else None
        if isinstance(default, int) and synonym.factor != 1:
            default //= synonym.factor
        doc = f"The default of the topic setting {topic_setting.name}"
        if synonym.factor != 1:
            doc += ", in hours" if synonym.factor == HOUR_MS else ", in minutes"
        if settings:
            doc += f"; counts only without {' and '.join(setting.name for setting in settings)}"
        settings.append(
            Setting(
                name=synonym.name,
                type=topic_setting.type if synonym.factor == 1 else SettingType.INT,
                default=default,
                doc=f"{doc}.",
                rule=topic_setting.rule,
                # As in Kafka, only the first synonym is dynamic: a change of a later one might have no effect, because
                # an earlier one overrides it.
                update=Update.READ_ONLY if settings else Update.CLUSTER_WIDE,
            )
        )
    return settings


TOPIC_DEFAULTS: Final[tuple[Setting, ...]] = tuple(
    derived for topic_setting in TOPIC_SETTINGS.values() for derived in _derived(topic_setting)
)
