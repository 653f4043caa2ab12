"""The client for threads: what ``semel`` has for asyncio, under the same names, blocking.

from semel.blocking import Producer, Consumer, Admin

Each class has the session of its asyncio twin (``semel.client.producer_session``, ``consumer_session``) and a thread
that drives it. Open ``producer.py`` first.
"""

from __future__ import annotations

from semel.blocking.admin import Admin
from semel.blocking.consumer import Consumer
from semel.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
