"""The settings of a subscription to client metrics (KIP-714, resource type 16). Pure.

Subscriptions are stored and described, as in an Apache Kafka without a metrics plugin. As in such a Kafka, clients are
not asked for metrics: GetTelemetrySubscriptions and PushTelemetry are not served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from semel.errors import ErrorCode, KafkaError
from semel.settings import Between, Setting, Settings, SettingType, Update

_MATCH: Final = "match"
_MATCHED: Final = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_MATCH_LENGTH_MAX: Final = 4096

CLIENT_METRICS_SETTINGS: Final = Settings(
    "client metrics",
    [
        Setting(
            name="metrics",
            type=SettingType.LIST,
            default=(),
            doc="The prefixes of the metrics that clients are asked for; * asks for all.",
            update=Update.CLUSTER_WIDE,
        ),
        Setting(
            name="interval.ms",
            type=SettingType.INT,
            default=300_000,
            doc="How often clients send them.",
            rule=Between(100, 3_600_000),
            update=Update.CLUSTER_WIDE,
        ),
        Setting(
            name=_MATCH,
            type=SettingType.LIST,
            default=(),
            doc="Which clients: attribute=regular expression, all of which must match.",
            update=Update.CLUSTER_WIDE,
        ),
    ],
)


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raise ``KafkaError`` if a pattern of ``match`` is too long, has an unknown attribute or an invalid expression."""
    match = configs.get(_MATCH, "")
    if len(match) > _MATCH_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{_MATCH} has {len(match)} characters; at most {_MATCH_LENGTH_MAX} are allowed"
        )
    for part in filter(None, (part.strip() for part in match.split(","))):
        attribute, equals, pattern = part.partition("=")
        if not equals or attribute.strip() not in _MATCHED or not _is_pattern(pattern.strip()):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Illegal client matching pattern: {part[:200]}; what can be matched is {', '.join(_MATCHED)}",
            )


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
