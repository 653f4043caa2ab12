"""The settings of a producer: Kafka 4's names and defaults, and the contradictions that are refused.

The law: a setting that was given is obeyed, or refused when the producer is made, never quietly weakened. Only if
idempotence was not asked for do ``acks`` or ``retries`` turn it off, and then a log line says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semel.client.config.common import (
    ABSENT,
    BOOLEAN,
    CLIENT_SETTINGS,
    INT,
    LONG,
    MINUTE_MS,
    STRING,
    ClientConfig,
    read_keywords,
    split,
)
from semel.settings import AtLeast, Between, OneOf, SettingError, Settings, declare, declared_in
from semel.types import INT32_MAX
from semel.wire.compression import Codec

log = logging.getLogger(__name__)

ACKS_ALL: Final = -1
IDEMPOTENT_IN_FLIGHT_MAX: Final = 5
"""The number of batches that a broker remembers of a producer in each partition."""


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """All settings of one producer, typed. ``client`` holds those that it shares with consumers."""

    client: ClientConfig = field(default_factory=ClientConfig)

    # What is guaranteed
    acks: int = declare(
        "acks",
        STRING,
        "all",
        "Which replicas must have a record before it counts as written: all in sync, the leader (1), or none (0).",
        rule=OneOf(("all", "-1", "0", "1")),
        read=lambda text: ACKS_ALL if text == "all" else int(text),
    )
    enable_idempotence: bool = declare(
        "enable.idempotence",
        BOOLEAN,
        True,
        "Whether batches are numbered, so that what is sent again is written once and in order.",
    )
    transactional_id: str | None = declare(
        "transactional.id", STRING, None, "The transactional id. Without one the producer has no transactions."
    )
    transaction_timeout_ms: int = declare(
        "transaction.timeout.ms",
        INT,
        MINUTE_MS,
        "How long a transaction may stay open before the coordinator aborts it.",
        rule=AtLeast(1),
    )

    # When sending fails
    delivery_timeout_ms: int = declare(
        "delivery.timeout.ms",
        INT,
        2 * MINUTE_MS,
        "How long after send a record is reported as failed if it has not been acknowledged.",
        rule=AtLeast(0),
    )
    retries: int = declare(
        "retries",
        INT,
        INT32_MAX,
        "How often a batch is sent again at most; delivery.timeout.ms is the better limit.",
        rule=Between(0, INT32_MAX),
    )
    max_block_ms: int = declare(
        "max.block.ms",
        LONG,
        MINUTE_MS,
        "How long a record waits for room in the buffer or for its topic to be known, and how long a call such as "
        "commit waits before it says that it timed out.",
        rule=AtLeast(0),
    )

    # Batches and requests
    batch_size: int = declare(
        "batch.size", INT, 16_384, "How many bytes of one partition are sent together at most.", rule=AtLeast(0)
    )
    linger_ms: int = declare(
        "linger.ms",
        LONG,
        5,
        "How long a batch that is not full waits for more records.",
        rule=AtLeast(0),
    )
    buffer_memory: int = declare(
        "buffer.memory",
        LONG,
        32 * 2**20,
        "How many bytes of records may wait to be acknowledged; more have to wait for room.",
        rule=AtLeast(1),
    )
    max_request_size: int = declare(
        "max.request.size", INT, 2**20, "The largest request, and so the largest record.", rule=AtLeast(1)
    )
    max_in_flight_requests_per_connection: int = declare(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "How many requests may be unanswered on one connection.",
        rule=AtLeast(1),
    )
    compression_type: Codec = declare(  # noqa: RUF009 (the value is frozen)
        "compression.type",
        STRING,
        "none",
        "How batches are compressed.",
        rule=OneOf(tuple(codec.name.lower() for codec in Codec)),
        read=lambda name: Codec[name.upper()],
    )
    compression_gzip_level: int = declare(
        "compression.gzip.level", INT, 6, "The compression level of gzip.", rule=Between(1, 9)
    )
    compression_lz4_level: int = declare(
        "compression.lz4.level", INT, 9, "The compression level of lz4.", rule=Between(1, 17)
    )
    compression_zstd_level: int = declare(
        "compression.zstd.level", INT, 3, "The compression level of zstd.", rule=Between(-131072, 22)
    )
    partitioner_ignore_keys: bool = declare(
        "partitioner.ignore.keys", BOOLEAN, False, "Whether the partition of a record is chosen without its key."
    )
    metadata_max_idle_ms: int = declare(
        "metadata.max.idle.ms",
        LONG,
        5 * MINUTE_MS,
        "After this time without a record for a topic, its metadata is forgotten.",
        rule=AtLeast(5_000),
    )

    @property
    def batch_size_max(self) -> int:
        """The largest size of a batch: no batch is larger than a request may be."""
        return min(self.batch_size, self.max_request_size)

    @property
    def compression_level(self) -> int | None:
        match self.compression_type:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @classmethod
    def load(cls, keywords: Mapping[str, object]) -> ProducerConfig:
        """Return the settings of these keywords. Raises ``SettingError`` with names that contradict each other."""
        attributes = read_keywords(PRODUCER_SETTINGS, keywords)
        asked = {name for name, value in keywords.items() if value is not None}
        client, own = split(attributes)
        config = cls(client=client, **own)
        own["enable_idempotence"] = _idempotence(config, asked="enable_idempotence" in asked)
        own["delivery_timeout_ms"] = _delivery_timeout_ms(config, asked="delivery_timeout_ms" in asked)
        return cls(client=client, **own)


PRODUCER_SETTINGS: Final = Settings(
    "producer",
    (*CLIENT_SETTINGS, *declared_in(ProducerConfig)),
    absent={
        **ABSENT,
        "partitioner.class": "pass partitioner=, a function of (topic, key, value, partition count)",
        "partitioner.adaptive.partitioning.enable": "records without a key are spread evenly",
        "partitioner.availability.timeout.ms": "records without a key are spread evenly",
        "transaction.two.phase.commit.enable": "no released version of Apache Kafka has it",
    },
)


def _idempotence(config: ProducerConfig, *, asked: bool) -> bool:
    """Whether batches are numbered. Refuses settings that contradict it, if idempotence was asked for."""
    if config.transactional_id is not None:
        if not config.enable_idempotence:
            raise _contradiction("transactional.id", "enable.idempotence=false", "transactions number their batches")
        if not config.transactional_id:
            raise SettingError("transactional.id", "transactional.id is empty; leave it out or give it a name")
        _refuse_contradictions(config, "transactional.id")
        return True
    if not config.enable_idempotence:
        return False
    if asked:
        _refuse_contradictions(config, "enable.idempotence=true")
        return True
    for setting, value, rules_out in _rules_out(config):
        if setting == _IN_FLIGHT:
            raise _contradiction("enable.idempotence (true unless set)", f"{setting}={value}", rules_out)
        log.info("enable.idempotence is off because %s=%s: %s", setting, value, rules_out)
        return False
    return True


def _refuse_contradictions(config: ProducerConfig, wanted: str) -> None:
    for setting, value, rules_out in _rules_out(config):
        raise _contradiction(wanted, f"{setting}={value}", rules_out)


_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


def _rules_out(config: ProducerConfig) -> list[tuple[str, Any, str]]:
    """Return what keeps this producer from being idempotent, as (setting, value, why)."""
    found: list[tuple[str, Any, str]] = []
    if config.acks != ACKS_ALL:
        found.append(("acks", config.acks, "exactly once takes acks=all"))
    if config.retries == 0:
        found.append(("retries", 0, "exactly once takes retries above 0"))
    if config.max_in_flight_requests_per_connection > IDEMPOTENT_IN_FLIGHT_MAX:
        limit = f"a broker remembers the last {IDEMPOTENT_IN_FLIGHT_MAX} batches"
        found.append((_IN_FLIGHT, config.max_in_flight_requests_per_connection, limit))
    return found


def _delivery_timeout_ms(config: ProducerConfig, *, asked: bool) -> int:
    """Return delivery.timeout.ms, which must allow for one request: a value that is too short is refused.

    If it was not asked for, it is raised instead.
    """
    least = min(config.linger_ms + config.client.request_timeout_ms, INT32_MAX)
    if config.delivery_timeout_ms >= least:
        return config.delivery_timeout_ms
    if asked:
        raise _contradiction(
            f"delivery.timeout.ms={config.delivery_timeout_ms}",
            f"linger.ms={config.linger_ms} and request.timeout.ms={config.client.request_timeout_ms}",
            "it must not be below their sum",
        )
    return least


def _contradiction(one: str, other: str, why: str) -> SettingError:
    return SettingError(one.partition("=")[0], f"{one} contradicts {other}: {why}")
