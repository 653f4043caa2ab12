"""The client for threads: what ``semel`` has for asyncio, under the same names, blocking.

from semel.blocking import Producer, Consumer, Admin
"""

from __future__ import annotations

from semel.client.blocking_admin import Admin
from semel.client.blocking_consumer import Consumer
from semel.client.blocking_producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
