"""Real brokers for users' tests, alone or as a cluster, which start in milliseconds; and faults to test clients with.

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

# Imported on demand, because the simulation in this package does not need a broker.
__getattr__, __dir__ = on_demand(__name__, {"Broker": "semel.testing.broker", "Cluster": "semel.testing.cluster"})
