"""Sinks beside the topic: tables and folders to which every batch of a pipeline is written exactly once.

    from semel.spark.sinks import SQLite

    pipeline(totals, topic="totals", also=[SQLite("totals.db", "totals", mode="upsert", keys=["customer"])], ...)

Open ``protocol.py`` first: what a sink must guarantee, also one that a user writes. ``ledger.py`` decides by a sink's
last batch whether the next one is written, ``side_sinks.py`` runs the sinks of a pipeline; every other module is one
sink or a part of it. The design is in docs/design/sinks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.on_demand import on_demand

if TYPE_CHECKING:
    from semel.spark.sinks.delta import Delta as Delta
    from semel.spark.sinks.files import Files as Files
    from semel.spark.sinks.iceberg import Iceberg as Iceberg
    from semel.spark.sinks.postgres import Postgres as Postgres
    from semel.spark.sinks.protocol import BatchSink as BatchSink
    from semel.spark.sinks.protocol import DivertingSink as DivertingSink
    from semel.spark.sinks.protocol import Line as Line
    from semel.spark.sinks.protocol import Owner as Owner
    from semel.spark.sinks.protocol import SinkBatch as SinkBatch
    from semel.spark.sinks.protocol import SinkError as SinkError
    from semel.spark.sinks.protocol import SinkFenced as SinkFenced
    from semel.spark.sinks.refused_rows import RefusedRow as RefusedRow
    from semel.spark.sinks.side_sinks import SinkProgress as SinkProgress
    from semel.spark.sinks.sqlite import SQLite as SQLite

__all__ = [
    "BatchSink",
    "Delta",
    "DivertingSink",
    "Files",
    "Iceberg",
    "Line",
    "Owner",
    "Postgres",
    "RefusedRow",
    "SQLite",
    "SinkBatch",
    "SinkError",
    "SinkFenced",
    "SinkProgress",
]

_HOMES = {
    "BatchSink": "semel.spark.sinks.protocol",
    "Delta": "semel.spark.sinks.delta",
    "DivertingSink": "semel.spark.sinks.protocol",
    "Files": "semel.spark.sinks.files",
    "Iceberg": "semel.spark.sinks.iceberg",
    "Line": "semel.spark.sinks.protocol",
    "Owner": "semel.spark.sinks.protocol",
    "Postgres": "semel.spark.sinks.postgres",
    "RefusedRow": "semel.spark.sinks.refused_rows",
    "SQLite": "semel.spark.sinks.sqlite",
    "SinkBatch": "semel.spark.sinks.protocol",
    "SinkError": "semel.spark.sinks.protocol",
    "SinkFenced": "semel.spark.sinks.protocol",
    "SinkProgress": "semel.spark.sinks.side_sinks",
}

# A task imports only the sink that it writes to, and so only that sink's libraries.
__getattr__, __dir__ = on_demand(__name__, _HOMES)
