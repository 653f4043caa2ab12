"""Ends the open transaction of a transactional id through its coordinator.

Kafka's tool calls it ``forceTerminateTransaction``. It requests a new epoch of the id (InitProducerId): the coordinator
aborts the open transaction in every partition and fences the producer that had it open. That is safe for a transaction
that its coordinator knows. A hanging transaction is unknown to it; ``admin.transactions.abort`` is for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semel.client.config.producer import PRODUCER_SETTINGS


def terminate_transaction(settings: Mapping[str, Any], transactional_id: str, *, timeout_ms: int) -> None:
    """Abort the open transaction of a transactional id, and fence its producer.

    ``settings`` are those of an admin client. ``timeout_ms`` is the transaction timeout that the id has now; the next
    producer sets its own. Raises ``KafkaError``, for example without the right WRITE on the id.
    """
    from semel.blocking import Producer

    known = {name.replace(".", "_") for name in PRODUCER_SETTINGS}
    shared = {name: value for name, value in settings.items() if name in known}
    with Producer(**shared, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms):
        pass
