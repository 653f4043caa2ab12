"""What users import in their own tests: a real broker that starts in milliseconds, and the machinery to make it suffer.

from semel.testing import Broker

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.testing.broker import Broker as Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> object:
    # Imported when asked for: the simulation needs no broker, and a broker no simulation.
    if name == "Broker":
        from semel.testing.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
