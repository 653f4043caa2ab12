# Every target brings its own environment: Python 3.11 or newer, make and git are all a fresh machine needs.
# PYTHON=/path/to/python3.12 chooses the interpreter that .venv is made with.

PYTHON ?= python3
RUN := .venv/bin/python
CHECKED := src tests tools benchmarks examples

# Tests start Python hundreds of times: without compiled modules each start compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help environment demo-environment demo demo-broker check unit test test-kafka test-frameworks kafka-jars bench spark-jars simulate campaign docs console-pictures clean

help:
	@echo "make demo           a stateful Spark job, kill -9 of its driver, restart: are the totals right? With a plain sink, then with ours"
	@echo "make demo-broker    see the broker at work: produce, kill -9, restart, consume, verdict"
	@echo "make unit           the inner loop: unit tests and quick properties, about a minute on two cores"
	@echo "make test           check, then every test that needs nothing but Python (and kcat, where it is)"
	@echo "make check          ruff, mypy --strict, import layers"
	@echo "make test-kafka     the same clients on Apache Kafka, and Kafka's tools on our files (Java, Maven)"
	@echo "make test-frameworks FastStream, Quix Streams, Faust and Confluent's serializers, killed in the middle"
	@echo "make bench          Semel and Apache Kafka side by side; make bench ARGS=--quick to try it"
	@echo "make spark-jars     fetch Spark's own Kafka connector (Java, Maven, 460 MB), for make bench ARGS=--spark"
	@echo "make simulate       the simulations; SEEDS=1000 for more of them, SEED=7 for one"
	@echo "make campaign       all campaigns, for hours; each goes on where it was interrupted. One of them: campaign-copy,"
	@echo "                    campaign-damage, campaign-disk, campaign-disk-simulation, campaign-failover, campaign-fuzz, campaign-groups, campaign-groups-simulation, campaign-outages,"
	@echo "                    campaign-cluster-groups, campaign-cluster-transactions, campaign-hostile, campaign-kill, campaign-leaderships, campaign-prover,"
	@echo "                    campaign-replicas, campaign-replicas-groups, campaign-replicas-transactions, campaign-simulation, campaign-sinks,"
	@echo "                    campaign-transactions, campaign-zookeeper"
	@echo "make campaign-spark kills of driver, tasks and broker at every step of a Spark batch"
	@echo "make docs           write the generated documents and pictures, and build the site into .cache/site"
	@echo "make console-pictures the pictures of docs/console.md (Chromium)"
	@echo "make clean          remove caches; .venv and the jars stay"

environment:
	@command -v $(PYTHON) >/dev/null || { echo "semel: there is no $(PYTHON) on PATH; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py

# Only what the demo needs; once there is all of it, that will do.
demo-environment:
	@command -v $(PYTHON) >/dev/null || { echo "semel: there is no $(PYTHON) on PATH; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py spark

demo: demo-environment
	@echo "semel: a broker, a Spark job with two sinks, a kill -9 of its driver, and the account"
	@$(RUN) -m semel demo

demo-broker: environment
	@echo "semel: a broker, two producers, three kills, one consumer"
	@$(RUN) -m tools.broker_demo

check: environment
	@echo "semel: ruff, mypy --strict, import layers"
	@$(RUN) -m ruff check --quiet $(CHECKED)
	@$(RUN) -m ruff format --check --quiet $(CHECKED) || { echo "semel: run .venv/bin/ruff format $(CHECKED)" >&2; exit 1; }
	@$(RUN) -m mypy --no-error-summary
	@$(RUN) -m mypy --no-error-summary --strict -p tools -p benchmarks
	@$(RUN) -m mypy --no-error-summary -p tests
	@.venv/bin/lint-imports --no-logo >.cache/lint-imports.txt || { cat .cache/lint-imports.txt; exit 1; }

unit: environment
	@echo "semel: unit tests and quick properties"
	@$(RUN) -m pytest -n 2 --dist loadgroup -m "not kafka and not slow" tests/unit tests/properties $(ARGS)

test: check
	@echo "semel: tests (Apache Kafka's are in make test-kafka)"
	@$(RUN) -m pytest -n 6 --dist loadgroup $(ARGS)

kafka-jars: environment
	@$(RUN) -m tools.kafka_jars

test-kafka: environment
	@echo "semel: tests beside Apache Kafka's own jars"
	@$(RUN) -m tools.kafka_jars || echo "semel: without the jars their tests are skipped, and listed at the end"
	@$(RUN) -m pytest -m kafka -n 2 --dist loadgroup $(ARGS)

test-frameworks: environment
	@echo "semel: FastStream, Quix Streams, Faust and Confluent's serializers, each in an environment of its own"
	@$(RUN) -m tools.frameworks $(ARGS)

bench: environment
	@echo "semel: benchmarks, Semel and Apache Kafka in turn"
	@$(RUN) -m tools.kafka_jars 4.3.0 || echo "semel: without the jars of Apache Kafka, Semel is measured alone"
	@$(RUN) -m benchmarks $(ARGS)

spark-jars: environment
	@$(RUN) -m benchmarks.spark.connector

simulate: environment
	@echo "semel: simulations"
	@$(RUN) -m pytest tests/simulation $(ARGS)

campaign: environment
	@$(RUN) -m tools.campaign $(ARGS)

campaign-%: environment
	@$(RUN) -m tools.campaign $* $(ARGS)

docs: environment
	@echo "semel: generated documents, pictures, the site"
	@$(RUN) -m tools.docs

console-pictures: environment
	@echo "semel: the console's pictures in docs/pictures (Chromium)"
	@$(RUN) -m tools.console_pictures

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +
