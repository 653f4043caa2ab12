"""The checks before a pipeline starts. Each raises ``Refused``, which says what to set instead.

Without its check, each of these cases would later break exactly-once, or block, with a less clear message.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, Final, TypeAlias

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from semel.client.config.common import addresses
from semel.errors import AbortableError, SemelError, TimedOut
from semel.spark.cluster import Cluster
from semel.spark.decision import Note
from semel.spark.plan import QueryPlan, read_twice
from semel.spark.source.options import SourceOptions
from semel.types import TopicPartition

_VERSION_MIN = (4, 2)
_MORE_THAN_SLOTS = 100_000
_PROTOCOL: Final = "security_protocol"
_LONGEST_TRANSACTION: Final = "transaction.max.timeout.ms"
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.2
_ANSWER_S: Final = 60.0
_MOVING_S: Final = 30.0
_WITHOUT_BATCHES: Final = ("continuous", "realTime")

log = logging.getLogger(__name__)

SocketAddress: TypeAlias = tuple[int, Any]
"""An address family, and an address of that family."""
Resolve: TypeAlias = Callable[[str, int], Sequence[SocketAddress]]
"""A function that returns the addresses of a host and a port."""


def _resolved(host: str, port: int) -> list[SocketAddress]:
    return [(found[0], found[4]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Refused(ValueError):
    """The pipeline was not started, and nothing was changed. The message says what to set."""


class NoBroker(Refused):
    """No broker answers at the addresses that were given."""


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn these errors, raised within this block or function, into ``Refused`` with the same text."""
    try:
        yield
    except Refused:
        raise
    except errors as error:
        raise Refused(str(error)) from error


def check_version(version: str = pyspark.__version__) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers < _VERSION_MIN:
        raise Refused(
            f"PySpark {version} has no admission control for Python sources; 4.2 is the oldest that this works with"
        )


def check_plan(plan: QueryPlan) -> None:
    if plan.foreign:
        raise Refused(
            f"the query reads {', '.join(map(repr, plan.foreign))}, whose offsets are not in the transaction: every "
            'streaming source of a pipeline is spark.readStream.format("semel")'
        )
    if not plan.sources:
        raise Refused("the DataFrame is no stream: a pipeline reads with spark.readStream")
    read: dict[tuple[str, str], int] = {}
    for source in plan.sources:
        if source.group_id is None:
            raise Refused("a source has no kafka.group.id: the consumed offsets are committed under it")
        if not source.reads_committed:
            raise Refused("a source has kafka.isolation.level=read_uncommitted: what it reads may be aborted later")
        subscription = source.subscription
        topics = {*subscription.topics, *(topic for topic, _ in subscription.assigned), subscription.pattern or ""}
        for topic in topics - {""}:
            key = (source.group_id, topic)
            read[key] = read.get(key, 0) + 1
            if read[key] > 1:
                raise Refused(read_twice(topic, source.group_id))


def check_sources_are_apart(read: Iterable[tuple[SourceOptions, Iterable[TopicPartition]]]) -> None:
    """Raises ``Refused`` if two sources with one group read the same partition, as two patterns may do."""
    seen: set[tuple[str | None, TopicPartition]] = set()
    for source, partitions in read:
        for partition in partitions:
            if (source.group_id, partition) in seen:
                raise Refused(read_twice(partition.topic, source.group_id or ""))
            seen.add((source.group_id, partition))


def check_session(spark: SparkSession, writers: int | None) -> int:
    """Check the session's settings, and return how many tasks it runs at once. Raises ``Refused``."""
    if (spark.conf.get("spark.dynamicAllocation.enabled", "false") or "").lower() == "true":
        raise Refused(
            "spark.dynamicAllocation.enabled is true: a barrier stage needs its slots at once. Set it to false, and "
            "spark.executor.instances to what the pipeline needs"
        )
    slots = _slots(spark)
    if writers is not None and writers > slots:
        raise Refused(f"writers={writers}, and there are {slots} task slots: ask for fewer, or start more executors")
    if writers is not None and writers < 1:
        raise Refused(f"writers={writers}; it is at least 1")
    return slots


def _slots(spark: SparkSession) -> int:
    if not type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.sparkContext.defaultParallelism
    # A client of Spark Connect cannot ask for the parallelism. But a range has that many partitions.
    return spark.range(_MORE_THAN_SLOTS).select(sf.spark_partition_id()).distinct().count()


def asked_of_spark(what: str, ask: Callable[[], object]) -> None:
    """Call ``ask``. Raises ``Refused`` with the first line of Spark's error if Spark refuses ``what``."""
    try:
        ask()
    except (PySparkException, TypeError, ValueError) as error:
        sentence = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Refused(f"{what}: {sentence}") from error


def check_output_mode(df: DataFrame, output_mode: str) -> None:
    """Raises ``Refused`` if Spark does not run this query in this output mode. The check needs the driver's JVM."""
    spark = df.sparkSession
    if (spark.conf.get("spark.sql.streaming.unsupportedOperationCheck", "true") or "").lower() != "true":
        return
    jvm: Any = spark._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    plan = df._jdf.queryExecution().analyzed()
    asked_of_spark(f"output_mode={output_mode!r}", lambda: checker.checkForStreaming(plan, mode))


def check_trigger(trigger: Mapping[str, Any]) -> None:
    """Raises ``Refused`` for a trigger with which Spark calls no function for each batch."""
    for name in _WITHOUT_BATCHES:
        if trigger.get(name) is not None:
            raise Refused(
                f"trigger={dict(trigger)}: a pipeline commits micro-batches, which {name} does not have. Use "
                "processingTime or availableNow"
            )


def check_query_name(spark: SparkSession, name: str | None) -> None:
    """Raises ``Refused`` if a query with this name is running in the session: Spark would not start another one."""
    if name is not None and any(query.name == name for query in spark.streams.active):
        raise Refused(f"query_name={name!r} is the name of a query that is running: stop that one, or use another name")


def check_transaction_timeout(timeout_ms: int, cluster: Cluster) -> None:
    longest_ms = longest_transaction_ms(cluster)
    if longest_ms is not None and timeout_ms > longest_ms:
        raise transaction_too_long(timeout_ms, f"{_LONGEST_TRANSACTION}={longest_ms}")


def longest_transaction_ms(cluster: Cluster) -> int | None:
    """Return the broker's maximum transaction timeout; ``None`` if it cannot be read.

    Then InitProducerId fails if the timeout is too long.
    """
    try:
        found = cluster.broker_setting(_LONGEST_TRANSACTION)
    except SemelError:
        return None
    return None if found is None else int(found)


def check_servers(servers: str, *, patience_s: float = _PATIENCE_S, resolve: Resolve = _resolved) -> None:
    """Raises ``NoBroker`` if none of the addresses accepts a connection: they are wrong, or no broker runs.

    ``patience_s`` is for all addresses together, and does not count the time in which names are resolved.
    """
    deadline = monotonic() + patience_s
    wanted = addresses([server.strip() for server in servers.split(",")])
    while True:
        failures = []
        for host, port in wanted:
            try:
                timeout_s = max((deadline - monotonic()) / len(wanted), _PAUSE_S)
                _connect(resolve(host, port), timeout_s)
                return
            except OSError as error:
                failures.append(f"{host}:{port}: {error.strerror or error}")
        if monotonic() >= deadline:
            raise NoBroker(f"no broker can be reached ({'; '.join(failures)}): is kafka.bootstrap.servers right?")
        sleep(_PAUSE_S)


def _connect(addresses_of_host: Sequence[SocketAddress], timeout_s: float) -> None:
    """Connect to one of the addresses of a host, within this time for all of them: a name may have many, and behind a
    firewall none of them answers. Raises ``OSError``."""
    error = OSError("the name has no address")
    for family, address in addresses_of_host:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s / len(addresses_of_host))
            try:
                connection.connect(address)
                return
            except OSError as failure:
                error = failure
    raise error


def check_brokers(
    cluster: Cluster, servers: str, *, patience_s: float = _PATIENCE_S, timeout_s: float = _ANSWER_S
) -> None:
    """Raises ``NoBroker`` if the server that accepts connections does not answer as a broker does.

    After ``patience_s`` a warning is logged, and only after ``timeout_s`` more the error is raised: a busy broker may
    take longer.
    """
    if cluster.is_answering(patience_s):
        return
    asked = "are kafka.bootstrap.servers and kafka.security.protocol right?"
    log.warning(
        "%s accepts connections, and has not answered as a broker does for %g s: %s Waiting for up to %g s",
        servers,
        patience_s,
        asked,
        timeout_s,
    )
    if not cluster.is_answering(timeout_s):
        raise NoBroker(f"{servers} accepts connections, and does not answer as a broker does: {asked}")


def check_twice(look: Callable[[bool], object], *, patience_s: float = _MOVING_S) -> None:
    """Call ``look`` until it passes, or raises ``Refused`` twice in a row with the same text: then raise that.

    ``look`` reads the checkpoint, then the group's offsets. Once is not enough, because a driver that still runs may
    change both between the two reads, and the text names what was read. Its argument is whether it is called again. If
    after ``patience_s`` the text is still another one each time, ``Refused`` says so.
    """
    deadline = monotonic() + patience_s
    refused: Refused | None = None
    looks = 0
    while True:
        looks += 1
        try:
            look(looks > 1)
            return
        except Refused as error:
            if refused is not None and str(error) == str(refused):
                raise
            if looks > 1 and monotonic() >= deadline:
                raise Refused(
                    f"the checkpoint and the group's offsets were looked at {looks} times in {patience_s:g} s, and did "
                    "not belong together, with other offsets each time: a driver of this pipeline still runs, or "
                    f"another one commits to the group. Stop it, or start again. The last time: {error}"
                ) from None
            if looks > 1:
                sleep(_PAUSE_S)
            refused = error
        except TimedOut as error:
            if refused is None:
                raise
            raise Refused(
                f"{refused}. That was read without waiting for open transactions; the offsets could not be read again "
                f"after their end: {error}"
            ) from None


def transaction_too_long(timeout_ms: int, longest: str = _LONGEST_TRANSACTION) -> Refused:
    return Refused(
        f"transaction_timeout_ms={timeout_ms} is more than the broker's {longest}: lower the one, or raise the other"
    )


def check_protocols(sources: tuple[SourceOptions, ...], sink: Mapping[str, Any]) -> None:
    """Raises ``Refused`` if a source and the sink have the same address and different security protocols.

    A listener has one security protocol, so one of them is wrong.
    """
    for source in sources:
        said, wanted = (str(one.get(_PROTOCOL) or "PLAINTEXT") for one in (source.settings, sink))
        if source.settings["bootstrap_servers"] == sink["bootstrap_servers"] and said != wanted:
            raise Refused(
                f"the source has kafka.security.protocol={said}, and the sink, at the same address, {wanted}: give "
                "pipeline(...) the kafka.security.*, kafka.sasl.* and kafka.ssl.* options of the source as well"
            )


def check_clusters(sources: tuple[SourceOptions, ...], sink: Cluster) -> None:
    wanted = sink.cluster_id()
    for source in sources:
        with Cluster(**dict[str, Any](source.settings)) as cluster:
            check_brokers(cluster, source.settings["bootstrap_servers"])
            found = cluster.cluster_id()
        if found != wanted:
            raise Refused(
                f"the source {source.settings['bootstrap_servers']} is cluster {found}, the sink is cluster {wanted}: "
                "a transaction cannot span two clusters"
            )


def check_sink_topics(names: Collection[str], cluster: Cluster) -> None:
    """Raises ``Refused`` if one of the topics to write to does not exist or may not be described, or if only brokers
    may write to it."""
    if not names:
        return
    with refusing(AbortableError):
        found = cluster.topics(names)
    if found.missing:
        raise Refused(f"there is no topic {', '.join(map(repr, found.missing))} to write to: create it first")
    if found.internal:
        raise Refused(f"{', '.join(map(repr, sorted(found.internal)))} is an internal topic: only brokers write to it")


def check_group_is_free(group_id: str, cluster: Cluster) -> None:
    try:
        members = cluster.member_count(group_id)
    except SemelError:
        return  # If the members cannot be read, the broker refuses the first commit instead.
    if members:
        raise Refused(
            f"group {group_id!r} has {members} members that consume and commit: give the pipeline a group of its own"
        )


def check_group_is_undivided(group_id: str, topics: Collection[str], transactional_id: str, cluster: Cluster) -> None:
    """Raises ``Refused`` if another pipeline uses the group for topics that this one does not read.

    A group is fenced as a whole, so the two pipelines would fence each other.
    """
    for (topic, _), at in sorted(cluster.committed(group_id, stable=False).items()):
        note = Note.parse(at.metadata)
        if topic not in topics and note is not None and note.owner not in (None, transactional_id):
            raise Refused(
                f"group {group_id!r} is used by the pipeline with transactional id {note.owner!r} for topic {topic!r}, "
                "which this one does not read: give this one a kafka.group.id of its own. If that pipeline is no more: "
                f"kafka-consumer-groups --delete-offsets --group {group_id} --topic {topic}"
            )
