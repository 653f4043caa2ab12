"""For users' tests: a real broker that starts in milliseconds, or several, and faults to test an application with.

from semel.testing import Broker

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.on_demand import on_demand

if TYPE_CHECKING:
    from semel.testing.broker import Broker as Broker
    from semel.testing.cluster import Cluster as Cluster

__all__ = ["Broker", "Cluster"]

# The simulation needs no broker, and a broker no simulation.
__getattr__, __dir__ = on_demand(__name__, {"Broker": "semel.testing.broker", "Cluster": "semel.testing.cluster"})
