"""Applies the dynamic settings of the metadata to the settings with which a broker was started.

A request that contradicts other settings is refused (``metadata.alter_configs``). But a restart with another file, or a
broker with other settings than the one that was asked, may still find dynamic settings that contradict its own. As in
Apache Kafka, that stops no broker: the dynamic settings that cannot be applied are ignored, and this is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from semel.broker.config.broker_config import BrokerConfig
from semel.settings import SettingError

logger = logging.getLogger("semel.broker")


def with_dynamic_configs(config: BrokerConfig, configs: Mapping[int | None, Mapping[str, str]]) -> BrokerConfig:
    """Return ``config`` with the dynamic settings: those for all brokers (``None``), and those of this broker's id."""
    of_all, own = configs.get(None, {}), configs.get(config.node_id, {})
    try:
        return config.altered(dynamic_default=of_all, dynamic=own)
    except SettingError as error:
        logger.error("the settings altered for this broker cannot be applied, and are ignored: %s", error)
    try:
        return config.altered(dynamic_default=of_all, dynamic={})
    except SettingError as error:
        logger.error("the settings altered for all brokers cannot be applied, and are ignored: %s", error)
    return config.altered(dynamic_default={}, dynamic={})
