"""Spark's own Kafka source and sink, and Semel's pipeline, on one broker and the same data."""
