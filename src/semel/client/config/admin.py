"""The settings of an admin client: Kafka 4's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from semel.client.config.common import ABSENT, CLIENT_SETTINGS, INT, MINUTE_MS, ClientConfig, read_keywords, split
from semel.settings import AtLeast, Settings, declare, declared_in


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """All settings of one admin client, typed. ``client`` holds those that it shares with producers and consumers."""

    client: ClientConfig = field(default_factory=ClientConfig)

    default_api_timeout_ms: int = declare(
        "default.api.timeout.ms",
        INT,
        MINUTE_MS,
        "How long a call takes at most. What may still work is tried again until then.",
        rule=AtLeast(0),
    )

    @classmethod
    def load(cls, keywords: Mapping[str, object]) -> AdminConfig:
        client, own = split(read_keywords(ADMIN_SETTINGS, keywords))
        return cls(client=client, **own)


ADMIN_SETTINGS: Final = Settings(
    "admin",
    (*CLIENT_SETTINGS, *declared_in(AdminConfig)),
    absent={
        **ABSENT,
        "retries": "what may still work is tried until default.api.timeout.ms is over",
        "bootstrap.controllers": "this version talks to brokers, not to controllers",
    },
)
