"""The config entries of a resource, for DescribeConfigs: every setting, its value and the source of the value. Pure.

The synonyms of an entry are all the places where it is set, in the order of their precedence. The last is the default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from semel.broker.config.broker_config import BROKER_SETTINGS, BrokerConfig
from semel.broker.config.client_metrics_config import CLIENT_METRICS_SETTINGS
from semel.broker.config.group_overrides import GROUP_SETTINGS
from semel.broker.config.topic_defaults import in_topic_units
from semel.log.config import TOPIC_SETTINGS
from semel.settings import Setting, SettingType, Synonym, Update
from semel.wire.codes import ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: SettingType
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def topic_entries(
    configs: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """Return the entries of a topic that has these ``configs``: all, or those with these names."""
    return [
        _inheriting_entry(setting, configs, ConfigSource.TOPIC, broker)
        for setting in _visible(TOPIC_SETTINGS.values())
        if names is None or setting.name in names
    ]


def group_entries(
    configs: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """Return the entries of a group that has these ``configs``: all, or those with these names."""
    return [
        _inheriting_entry(setting, configs, ConfigSource.GROUP, broker)
        for setting in _visible(GROUP_SETTINGS.values())
        if names is None or setting.name in names
    ]


def client_metrics_entries(configs: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the entries of a client metrics subscription with these ``configs``: all, or those with these names."""
    return [
        _entry(setting, tuple(_set_on(setting, configs, ConfigSource.CLIENT_METRICS)), read_only=False)
        for setting in _visible(CLIENT_METRICS_SETTINGS.values())
        if names is None or setting.name in names
    ]


def logger_entries(levels: Mapping[str, str], names: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the loggers of this process and their levels as entries: all, or those with these names."""
    return [
        DescribedConfig(name, level, ConfigSource.BROKER_LOGGER, False, False, (), SettingType.STRING, "")
        for name, level in sorted(levels.items())
        if names is None or name in names
    ]


def broker_entries(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the entries of a broker: all, or those with these names."""
    return [
        _entry(setting, tuple(_set_on_broker(setting, broker)), read_only=setting.update is Update.READ_ONLY)
        for setting in _visible(_of_broker(broker))
        if names is None or setting.name in names
    ]


def all_brokers_entries(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """Return the dynamic settings for all brokers only, which are those of the broker resource with an empty name."""
    altered = broker.sources.dynamic_default
    return [
        _entry(
            setting,
            (ConfigSynonym(setting.name, _shown(setting, altered[setting.name]), ConfigSource.ALL_BROKERS),),
            read_only=False,
        )
        for setting in _visible(_of_broker(broker))
        if setting.name in altered and (names is None or setting.name in names)
    ]


def _of_broker(broker: BrokerConfig) -> list[Setting]:
    """Return the declared settings, and those that are set for a single listener."""
    of_listeners = broker.sources.effective().keys() - BROKER_SETTINGS.keys()
    return [*BROKER_SETTINGS.values(), *map(BROKER_SETTINGS.lookup, sorted(of_listeners))]


def _set_on(setting: Setting, configs: Mapping[str, str], source: ConfigSource) -> Iterator[ConfigSynonym]:
    if setting.name in configs:
        yield ConfigSynonym(setting.name, _shown(setting, configs[setting.name]), source)


def _inheriting_entry(
    setting: Setting, configs: Mapping[str, str], source: ConfigSource, broker: BrokerConfig
) -> DescribedConfig:
    """Return the entry of a setting of a topic or a group. If it is not set there, the broker's setting counts."""
    found = list(_set_on(setting, configs, source))
    inherited = [
        (synonym, place)
        for synonym in setting.synonyms
        for place in _set_on_broker(BROKER_SETTINGS[synonym.name], broker)
    ]
    entry = _entry(setting, (*found, *(place for _, place in inherited)), read_only=False)
    return entry if found or not inherited else replace(entry, value=_in_topic_units(setting, *inherited[0]))


def _entry(setting: Setting, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool) -> DescribedConfig:
    default = None if setting.default is None or setting.is_sensitive else setting.text(setting.default)
    return DescribedConfig(
        name=setting.name,
        value=synonyms[0].value if synonyms else default,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_read_only=read_only,
        is_sensitive=setting.is_sensitive,
        synonyms=synonyms,
        type=setting.type,
        documentation=setting.doc,
    )


def _set_on_broker(setting: Setting, broker: BrokerConfig) -> Iterator[ConfigSynonym]:
    for texts, source in (
        (broker.sources.dynamic, ConfigSource.BROKER),
        (broker.sources.dynamic_default, ConfigSource.ALL_BROKERS),
        (broker.sources.static, ConfigSource.STATIC_BROKER),
    ):
        if setting.name in texts:
            yield ConfigSynonym(setting.name, _shown(setting, texts[setting.name]), source)
    if setting.default is not None:
        yield ConfigSynonym(setting.name, _shown(setting, setting.text(setting.default)), ConfigSource.DEFAULT)


def _in_topic_units(setting: Setting, synonym: Synonym, place: ConfigSynonym) -> str | None:
    if place.value is None:
        return None
    return setting.text(in_topic_units(synonym, BROKER_SETTINGS[synonym.name].parse(place.value)))


def _shown(setting: Setting, text: str) -> str | None:
    """Return the text of the parsed value, or ``None`` for a sensitive setting."""
    return None if setting.is_sensitive else setting.text(setting.parse(text))


def _visible(settings: Collection[Setting]) -> list[Setting]:
    return sorted((setting for setting in settings if not setting.internal), key=lambda setting: setting.name)
