"""Exactly-once pipelines on Spark: records and consumed offsets commit in one Kafka transaction for each micro-batch.

from semel.spark import pipeline, register

register(spark)
orders = (spark.readStream.format("semel").option("kafka.bootstrap.servers", servers)
          .option("subscribe", "orders").option("kafka.group.id", "totals-job").load())
query = pipeline(orders.transform(totals), topic="totals", transactional_id="totals-job", servers=servers,
                 checkpoint="checkpoints/totals").start()
"""

from semel.spark.batch import PipelineError, Superseded
from semel.spark.pipeline import Pipeline, pipeline, register
from semel.spark.placing import BadRow
from semel.spark.progress import PartitionProgress
from semel.spark.reading import DataLost
from semel.spark.refusals import Refused

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
