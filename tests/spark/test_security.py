"""A pipeline on a broker with TLS, passwords and rights: it runs, in the driver and in tasks, and shows no secret."""

from __future__ import annotations

import contextlib
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from semel.admin import AclBinding, AclOperation, AclResourceType
from semel.blocking import Producer
from semel.errors import AuthorizationFailed
from semel.spark import Refused, pipeline
from semel.spark.claim import Claim
from semel.spark.job import PipelineJob
from semel.testing import Broker
from semel.testing.certificate import CERTIFICATE, PRIVATE_KEY
from tests.spark.jobs import copied, run, source

PASSWORD = "hunter2-of-the-job"
# Of the key, the lines that no other text has.
SECRETS = (PASSWORD, *PRIVATE_KEY.strip().splitlines()[1:-1])

RIGHTS = [
    AclBinding(kind, name, "User:job", operation)
    for kind, name, operation in (
        (AclResourceType.TOPIC, "in", AclOperation.READ),
        (AclResourceType.TOPIC, "out", AclOperation.WRITE),
        (AclResourceType.GROUP, "jobs", AclOperation.READ),
        (AclResourceType.TRANSACTIONAL_ID, "jobs", AclOperation.WRITE),
        (AclResourceType.TRANSACTIONAL_ID, "jobs.semel-fence", AclOperation.WRITE),
    )
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = {"admin": "password-of-the-admin", "job": PASSWORD}
    with Broker(num_partitions=2, tls=True, users=users, acls=RIGHTS, super_users="User:admin") as running:
        with Producer(bootstrap_servers=running.bootstrap_servers, **running.client_security) as admin:
            admin.partitions_for("out")
        yield running


def send(broker: Broker, count: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, **broker.client_security) as admin:
        for number in range(count):
            admin.send("in", b"%d" % number, b"key-%d" % (number % 7))


def options_of(broker: Broker, **changes: str) -> dict[str, str]:
    """With Kafka's names, and with a private key, which the broker does not ask for."""
    own = {"ssl_keystore_key": PRIVATE_KEY, "ssl_keystore_certificate_chain": CERTIFICATE}
    settings = {**broker.client_security_of("job"), **own, **changes}
    return {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}


@contextlib.contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[None]:
    """What Spark's history server would show, which is what its UI shows."""
    folder.mkdir()
    jvm: Any = spark._jvm
    context = spark.sparkContext._jsc.sc()
    conf = context.getConf().set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "secured", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    context.addSparkListener(listener)
    try:
        yield
        context.listenerBus().waitUntilEmpty()
    finally:
        context.removeSparkListener(listener)
        listener.stop()


def explained(df: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            df.explain(mode=mode)
    return printed.getvalue()


def shown(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def texts_in(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_pipeline_runs_with_the_rights_that_it_needs_and_shows_no_secret(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    send(broker, 40)
    options = options_of(broker)
    df = copied(source(spark, broker, **options))
    with event_log(spark, tmp_path / "events"):
        batches = run(df, broker, tmp_path / "checkpoint", writers=2, **options)
        rows = spark.read.format("semel").options(**options).option("subscribe", "in")
        read = rows.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()
        assert read.count() == 40
    assert sorted(int(record.value or b"") for record in broker.committed("out")) == list(range(40))

    plans = explained(df) + explained(read)
    assert "kafka.sasl.username=job" in plans, "the options are in the plan"
    assert "kafka.ssl.keystore.key=*********(redacted)" in plans
    events = texts_in(tmp_path / "events")
    assert "MapInArrow" in events, "the plans are in the event log"
    described = pipeline(df, transactional_id="jobs", servers="b:9092", checkpoint="c", topic="out", **options)
    for text in (plans, events, json.dumps(batches, default=str), texts_in(tmp_path / "checkpoint"), repr(described)):
        assert shown(text) == []


def test_a_fence_that_may_not_be_used_is_refused_with_the_right_to_allow(broker: Broker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap_servers, **broker.client_security_of("job")}
    with pytest.raises(Refused, match=r"Allow the pipeline's user WRITE on it") as refused:
        Claim.take({**settings, "transactional_id": "jobs"}, ["others"])
    assert "transactional id 'others.semel-fence' fences group 'others'" in str(refused.value)


def test_a_wrong_password_and_a_file_that_a_worker_lacks_are_told_without_a_secret(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    wrong = options_of(broker, sasl_password=f"not-{PASSWORD}")
    with pytest.raises(AuthorizationFailed) as refused:
        run(copied(source(spark, broker, **wrong)), broker, tmp_path / "checkpoint", **wrong)
    assert shown(str(refused.value)) == []

    send(broker, 1)
    authority = tmp_path / "authority.pem"
    located = options_of(broker)
    authority.write_text(located.pop("kafka.ssl.truststore.certificates"))
    located["kafka.ssl.truststore.location"] = str(authority)

    def lost_by_workers(point: str, batch_id: int) -> None:
        if point == "begun":
            authority.unlink()

    with pytest.raises(StreamingQueryException) as failed:
        run(
            copied(source(spark, broker, **located)),
            broker,
            tmp_path / "checkpoint",
            transactional_id="jobs",
            attempts=1,
            reached=lost_by_workers,
            **located,
        )
    told = str(failed.value)
    assert f"ssl.truststore.location={authority} cannot be used" in told
    assert f"This is on {socket.gethostname()}: the file must be there on the driver and on every worker" in told
    assert shown(told) == []


def test_a_file_of_a_pipeline_takes_the_client_s_settings_from_another(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(f"security.protocol=SASL_SSL\nsasl.password={PASSWORD}\n")
    said = {
        "servers": "b:9092",
        "transactional_id": "jobs",
        "checkpoint": "c",
        "client_config": "client.properties",
        "sql": "SELECT value FROM orders",
        "sources": {"orders": {"subscribe": "in"}},
        "sink": {"topic": "out", "kafka": {"compression": {"type": "zstd"}}},
    }
    job = PipelineJob.parse(said, folder=tmp_path)
    assert job.sources["orders"]["kafka.sasl.password"] == PASSWORD
    assert job.sink == {
        "security_protocol": "SASL_SSL",
        "sasl_password": PASSWORD,
        "topic": "out",
        "compression_type": "zstd",
    }
    assert shown(repr(job)) == []
