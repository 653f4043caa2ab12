"""Generates the reference of all settings, ``docs/configuration.md``, from their declarations.

Update it with ``python -m semel.broker.config.config_reference > docs/configuration.md``; a test fails while the file
is out of date.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.broker.config.client_metrics_config import CLIENT_METRICS_SETTINGS
from semel.broker.config.group_overrides import GROUP_SETTINGS
from semel.log.config import TOPIC_SETTINGS
from semel.settings import Setting, Update
from semel.types import INT32_MAX, INT64_MAX

_OPENING = """\
# Configuration

<!-- Written by `python -m semel.broker.config.config_reference`; edit the declarations, not this file. -->

Names, types, defaults and ranges are Apache Kafka's (4.3); where a default differs, the description says so. A setting
that does not exist here is refused, never ignored, and the error names the nearest one that does.

A broker takes its settings from a file in Java's `.properties` syntax and from the command line, which wins:

    semel serve --config server.properties --set num.partitions=4 --set flush=os

What is marked *running* below can also be altered while the broker runs, for one broker or for all, with
IncrementalAlterConfigs; such a value wins over both and survives a restart. If such values contradict the settings that
a broker is started with, it logs an error and starts without them, as Apache Kafka does. A topic's settings are given
when it is created and can be altered at any time; what is not set on a topic comes from the broker's setting named
beside it.
"""

_TOPICS = """
## Topics

| setting | type | default | allowed | broker's default | what it does |
|---|---|---|---|---|---|
"""

_BROKERS = """
## Brokers

| setting | type | default | allowed | altered | what it does |
|---|---|---|---|---|---|
"""


_GROUPS = """
## Groups

Set on one group with `kafka-configs --entity-type groups`, whether it has members or not. They count in groups of the
consumer protocol (KIP-848), from a member's next heartbeat on, and must be within the broker's bounds.

| setting | type | default | allowed | broker's default | what it does |
|---|---|---|---|---|---|
"""

_CLIENT_METRICS = """
## Client metrics

Set on a subscription with `kafka-configs --entity-type client-metrics`. Subscriptions are kept and told; clients are
not asked for metrics, as in an Apache Kafka that has no plugin for them.

| setting | type | default | allowed | broker's default | what it does |
|---|---|---|---|---|---|
"""


def render() -> str:
    topics, groups, client_metrics = (
        "".join(
            _row(setting, ", ".join(f"`{synonym.name}`" for synonym in setting.synonyms))
            for setting in _sorted(settings.values())
        )
        for settings in (TOPIC_SETTINGS, GROUP_SETTINGS, CLIENT_METRICS_SETTINGS)
    )
    brokers = [
        _row(setting, "running" if setting.update is Update.CLUSTER_WIDE else "at start")
        for setting in _sorted(BROKER_SETTINGS.values())
    ]
    tables = (_TOPICS, topics, _BROKERS, *brokers, _GROUPS, groups, _CLIENT_METRICS, client_metrics)
    return _OPENING + "".join(tables) + _refused()


def _row(setting: Setting, own_column: str) -> str:
    rule = "" if setting.rule is None else str(setting.rule)
    cells = (f"`{setting.name}`", setting.type.name.lower(), _default(setting), rule, own_column, setting.doc)
    return f"| {' | '.join(cells)} |\n"


def _default(setting: Setting) -> str:
    match setting.default:
        case None:
            return "not set"
        case int(number) if number in (INT64_MAX, INT32_MAX):
            return "no limit"
        case () | "":
            return "empty"
        case value:
            return f"`{setting.text(value)}`"


def _refused() -> str:
    lines = [
        f"- `{name}{'*' if name.endswith('.') else ''}` ({settings.kind}): {reason}.\n"
        for settings in (TOPIC_SETTINGS, BROKER_SETTINGS, GROUP_SETTINGS)
        for name, reason in sorted(settings.absent.items())
    ]
    return "\n## Refused, with the reason\n\n" + "".join(lines)


def _sorted(settings: Iterable[Setting]) -> list[Setting]:
    return sorted((setting for setting in settings if not setting.internal), key=lambda setting: setting.name)


if __name__ == "__main__":
    print(render(), end="")
