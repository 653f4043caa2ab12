"""Exactly-once pipelines on Spark: records and consumed offsets commit in one Kafka transaction for each micro-batch.

from semel.spark import pipeline, register

register(spark)
orders = (spark.readStream.format("semel").option("kafka.bootstrap.servers", servers)
          .option("subscribe", "orders").option("kafka.group.id", "totals-job").load())
query = pipeline(orders.transform(totals), topic="totals", transactional_id="totals-job", servers=servers,
                 checkpoint="checkpoints/totals").start()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.on_demand import on_demand

if TYPE_CHECKING:
    from semel.spark.errors import PipelineError as PipelineError
    from semel.spark.errors import Superseded as Superseded
    from semel.spark.pipelines import Pipeline as Pipeline
    from semel.spark.pipelines import pipeline as pipeline
    from semel.spark.pipelines import register as register
    from semel.spark.progress import PartitionProgress as PartitionProgress
    from semel.spark.refusals import Refused as Refused
    from semel.spark.sink.row_partitioning import BadRow as BadRow
    from semel.spark.source.reading import DataLost as DataLost

__all__ = [
    "BadRow",
    "DataLost",
    "PartitionProgress",
    "Pipeline",
    "PipelineError",
    "Refused",
    "Superseded",
    "pipeline",
    "register",
]

_HOMES = {
    "BadRow": "semel.spark.sink.row_partitioning",
    "DataLost": "semel.spark.source.reading",
    "PartitionProgress": "semel.spark.progress",
    "Pipeline": "semel.spark.pipelines",
    "PipelineError": "semel.spark.errors",
    "Refused": "semel.spark.refusals",
    "Superseded": "semel.spark.errors",
    "pipeline": "semel.spark.pipelines",
    "register": "semel.spark.pipelines",
}

# Imported on demand, because Spark starts many processes, and those that plan or read need none of the sink's modules.
__getattr__, __dir__ = on_demand(__name__, _HOMES)
