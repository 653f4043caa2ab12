"""Who is measured: Semel with both ways of flushing, and Apache Kafka where its jars are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.brokers import apache_kafka, semel
from tools.kafka_jars import KAFKA_4, Unavailable, jars_of, java
from tools.server import Server

SEMEL_OS = "Semel"
SEMEL_COMMIT = "Semel, flush=commit"
KAFKA = "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    describe: str
    make: Callable[..., Server]
    """``make(folder)``, or ``make(folder, secured=("SSL",))`` for one with a listener with TLS besides."""


def contestants() -> tuple[list[Contestant], str | None]:
    """Those that can be measured here, and why one is missing."""
    ours = [
        Contestant(
            SEMEL_OS,
            "flush=os: acknowledged once the system has it, as Kafka does",
            lambda folder, **more: semel(folder, settings={"flush": "os"}, **more),
        ),
        Contestant(
            SEMEL_COMMIT,
            "flush=commit, the default: acknowledged once it is synced to disk",
            lambda folder, **more: semel(folder, settings={"flush": "commit"}, **more),
        ),
    ]
    try:
        java()
        jars_of(KAFKA_4)
    except Unavailable as missing:
        return ours, str(missing)
    # Deleted topics of earlier measurements should not sit in the page cache for a minute; nothing else is tuned.
    settings = {"log.segment.delete.delay.ms": "1000"}
    kafka = Contestant(
        KAFKA,
        f"{KAFKA_4}, one node, 1 GB heap, default settings",
        lambda folder, **more: apache_kafka(folder, settings=settings, **more),
    )
    return [*ours, kafka], None
