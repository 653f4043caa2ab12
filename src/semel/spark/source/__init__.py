"""The data source "semel" for Spark: which offsets a micro-batch covers, and reading them. Open ``source.py`` first."""
