"""The client for threads: the classes that ``semel`` has for asyncio, under the same names, with blocking calls.

from semel.blocking import Producer, Consumer, Admin

``Producer`` and ``Consumer`` have the sessions of the asyncio classes (``semel.client.producer_session``,
``consumer_session``) and a thread that runs their driver; ``Admin`` runs the asyncio client in a thread. Open
``producer.py`` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.on_demand import on_demand

if TYPE_CHECKING:
    from semel.blocking.admin import Admin as Admin
    from semel.blocking.consumer import Consumer as Consumer
    from semel.blocking.producer import Producer as Producer

__all__ = ["Admin", "Consumer", "Producer"]

# Most commands of ``semel`` need one of them, and start without the others.
__getattr__, __dir__ = on_demand(__name__, {name: f"{__name__}.{name.lower()}" for name in __all__})
