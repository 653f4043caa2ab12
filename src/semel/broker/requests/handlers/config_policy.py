"""What configs are judged by, as this broker is configured now."""

from __future__ import annotations

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.broker.node import Node
from semel.metadata.alter_configs import ConfigPolicy


def config_policy(node: Node) -> ConfigPolicy:
    config = node.config
    return ConfigPolicy(
        topics=node.topic_policy(),
        broker_settings=BROKER_SETTINGS,
        broker_texts=config.sources.static,
        check_broker=lambda texts: config.altered(dynamic_default={}, dynamic=texts),
    )
