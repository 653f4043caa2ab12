"""What is measured, in order. The aims are those of the project: what Semel must reach to be worth choosing."""

from __future__ import annotations

from benchmarks.clients import client_workloads
from benchmarks.fixture import fixture_workload
from benchmarks.groups import heartbeats_workload, rebalance_workload
from benchmarks.known_ids import ids_cost_workload, ids_start_workload
from benchmarks.latency import latency_workload
from benchmarks.librdkafka import consume_workload, produce_workload, tls_workload
from benchmarks.lifecycle import recovery_workload, start_workload
from benchmarks.measuring import LifecycleWorkload, Row, Workload
from benchmarks.raw_load import fetch_workload, one_record_workload
from benchmarks.syncs import records_per_sync_workload, syncs_per_group_workload
from benchmarks.transactions import Load, confluent_load, semel_load, transaction_workload

_MB, _KB16 = 1_000_000, 16_384


def _transactions(client: str, load: Load, producers: int, records: int) -> Workload:
    """One record goes to one partition, a hundred go to all four."""
    key = f"transactions-{client.replace('.', '-').partition('-')[0]}-{producers}x{records}"
    title = f"{producers} x {client}, {records} record{'s' if records > 1 else ''}"
    return transaction_workload(
        load,
        producers,
        records,
        commits=Row(key, f"transactions, {title}", "commits/s", aim=3.0, aim_durable=1.0),
        p50=Row(f"{key}-p50", f"{title}, p50", "ms", higher_is_better=False),
        p99=Row(f"{key}-p99", f"{title}, p99", "ms", higher_is_better=False, aim=4.0),
        broker_time=Row(f"{key}-cpu", f"{title}, broker's time", "ms", higher_is_better=False),
    )


THROUGHPUT: tuple[Workload, ...] = (
    produce_workload(1000, _MB, Row("produce-1kb-1mb", "produce 1 KB records, 1 MB batches", "MB/s", aim=2.0)),
    produce_workload(1000, _KB16, Row("produce-1kb-16kb", "produce 1 KB records, 16 KB batches", "MB/s", aim=2.5)),
    produce_workload(100, _MB, Row("produce-100b-1mb", "produce 100 B records, 1 MB batches", "records/s", aim=1.3)),
    produce_workload(
        100, _KB16, Row("produce-100b-16kb", "produce 100 B records, 16 KB batches", "records/s", aim=1.3)
    ),
    consume_workload(Row("consume-1kb", "consume 1 KB records", "MB/s", aim=1.0), record_bytes=1000, batch_bytes=_MB),
    fetch_workload(
        Row("fetch-1kb", "fetch 1 KB records, without a client", "MB/s", aim=1.0), batch_records=900, record_bytes=1000
    ),
    one_record_workload(1, 1, Row("single-1", "one record per request, 1 connection", "requests/s", aim=1.3)),
    one_record_workload(16, 1, Row("single-16", "one record per request, 16 connections", "requests/s", aim=1.3)),
    one_record_workload(
        16, 5, Row("single-16-pipelined", "one record per request, 16 connections x 5", "requests/s", aim=1.3)
    ),
    latency_workload(
        Row("latency-p50", "produce latency at 100/s, p50", "ms", higher_is_better=False, aim=1.0),
        Row("latency-p99", "produce latency at 100/s, p99", "ms", higher_is_better=False, aim=1.0),
    ),
    records_per_sync_workload(1, Row("per-sync-1", "records per sync, 1 connection", "records")),
    records_per_sync_workload(16, Row("per-sync-16", "records per sync, 16 connections", "records")),
    records_per_sync_workload(64, Row("per-sync-64", "records per sync, 64 connections", "records")),
    *(
        syncs_per_group_workload(
            count, Row(f"syncs-{count}", f"syncs per group commit, {count} partitions", "syncs", higher_is_better=False)
        )
        for count in (1, 50, 1000)
    ),
    *(
        _transactions(client, load, producers, records)
        for client, load in (("confluent-kafka", confluent_load), ("semel.Producer", semel_load))
        for producers in (1, 8)
        for records in (1, 100)
    ),
    heartbeats_workload(
        1000,
        5,
        Row("group-heartbeats", "heartbeats of 1,000 groups of 5", "% core", higher_is_better=False, limit=15.0),
    ),
    rebalance_workload(
        200, Row("group-rebalance", "rebalance of a group of 200", "s", higher_is_better=False, limit=2.0)
    ),
    *client_workloads(),
)

MEMORY_AFTER_LOAD = Row("memory-loaded", "resident memory after all this", "MB", higher_is_better=False, aim=10.0)

LIFECYCLE: tuple[LifecycleWorkload, ...] = (
    tls_workload(1000, _MB, Row("produce-tls-1mb", "produce 1 KB records over TLS, 1 MB batches", "MB/s", aim=1.0)),
    tls_workload(1000, _KB16, Row("produce-tls-16kb", "produce 1 KB records over TLS, 16 KB batches", "MB/s", aim=1.0)),
    start_workload(
        Row("start", "start to ready", "s", higher_is_better=False, aim=10.0),
        Row("memory-idle", "resident memory, idle", "MB", higher_is_better=False, aim=10.0),
    ),
    fixture_workload(
        Row("fixture-start", "a broker for tests: start to ready", "ms", higher_is_better=False, aim=10.0),
        Row("fixture-memory", "a broker for tests: memory it adds", "MB", higher_is_better=False, aim=10.0),
        Row("fixture-shared", "50 tests with transactions, one broker for all", "s", higher_is_better=False, aim=1.0),
        Row("fixture-fresh", "the same, Semel anew for every test", "s", higher_is_better=False, aim=1.0),
    ),
    recovery_workload(
        Row("recovery", "serving again after kill -9, 1 GB of log", "s", higher_is_better=False, limit=0.5)
    ),
    ids_start_workload(
        Row("transactions-ids-start", "start with 1,000,000 transactional ids", "s", higher_is_better=False),
        Row("transactions-ids-memory", "resident memory with them", "MB", higher_is_better=False),
    ),
    ids_cost_workload(
        *(
            Row(f"transactions-ids-{key}", f"broker's time for a transaction, {what}", "ms", higher_is_better=False)
            for key, what in (
                ("few", "10 ids known"),
                ("many", "1,000,000 ids known"),
                ("long", "10 ids known, 500 MB of log"),
            )
        )
    ),
)

ROWS: tuple[Row, ...] = (
    *(row for workload in THROUGHPUT for row in workload.rows),
    MEMORY_AFTER_LOAD,
    *(row for life in LIFECYCLE for row in life.rows),
)
