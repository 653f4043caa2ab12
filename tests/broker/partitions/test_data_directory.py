"""Whose data directory it is: nothing is founded over data that is there, and no topic vanishes with a damaged file."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.errors import ErrorCode, StorageError
from semel.testing import Broker
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, values


def make_data(folder: Path, **settings: object) -> str:
    """A stopped broker's directory with one record; returns its cluster's id."""
    with Broker(folder, **settings) as broker, RawClient(broker.port) as client:
        client.create_topic("orders")
        client.produce("orders", batch(b"paid"))
        return cluster_id(client)


def cluster_id(client: RawClient) -> str:
    found = client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).cluster_id
    assert isinstance(found, str)
    return found


def assert_served(folder: Path, cluster: str) -> None:
    with Broker(folder) as broker, RawClient(broker.port) as client:
        assert cluster_id(client) == cluster
        assert values(client.fetch("orders", 0)) == [(0, b"paid")]
    assert (folder / "metadata").read_bytes() == (folder / "metadata.copy").read_bytes()
    assert not list(folder.glob("*-stray"))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, which names the process."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def assert_refused(folder: Path, match: str) -> None:
    before = tree(folder)
    with pytest.raises(StorageError, match=match):
        Broker(folder).start()
    assert tree(folder) == before


def flip_last(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("name", ["metadata", "metadata.copy"])
@pytest.mark.parametrize("damage", [flip_last, cut, Path.unlink])
def test_a_damaged_metadata_file_is_made_again_and_no_topic_vanishes(
    tmp_path: Path, name: str, damage: Callable[[Path], object]
) -> None:
    cluster = make_data(tmp_path)
    damage(tmp_path / name)
    assert_served(tmp_path, cluster)


def test_a_directory_whose_metadata_is_missing_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    make_data(tmp_path)
    (tmp_path / "metadata").unlink()
    (tmp_path / "metadata.copy").unlink()
    assert_refused(tmp_path, match=r"metadata and .*metadata.copy are missing, and .* holds logs \(journal.0\)")


def test_a_directory_whose_metadata_is_damaged_twice_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    make_data(tmp_path)
    flip_last(tmp_path / "metadata")
    cut(tmp_path / "metadata.copy")
    assert_refused(tmp_path, match=r"The last sound copy is .*metadata up to change \d+")


def test_a_directory_of_the_version_with_one_metadata_file_is_upgraded(tmp_path: Path) -> None:
    cluster = make_data(tmp_path)
    path = tmp_path / "metadata"
    path.write_bytes(b"semelmd\x01" + path.read_bytes()[8:])
    (tmp_path / "metadata.copy").unlink()
    assert_served(tmp_path, cluster)


@pytest.mark.parametrize(
    "damaged", [None, b"", b"cluster.id=\nnode.id=1\nversion=1\n", b"\xff\xff", b"node.id=1\nversion=1\n"]
)
def test_a_missing_or_damaged_identity_is_made_again_from_the_metadata(tmp_path: Path, damaged: bytes | None) -> None:
    cluster = make_data(tmp_path)
    path = tmp_path / "meta.properties"
    sound = path.read_bytes()
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)
    assert_served(tmp_path, cluster)
    assert path.read_bytes() == sound


def test_a_missing_identity_is_not_made_again_for_another_node(tmp_path: Path) -> None:
    make_data(tmp_path, node_id=3)
    (tmp_path / "meta.properties").unlink()
    assert_refused(tmp_path, match=r"metadata has topics of node 3; node.id is 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster.id=another\nnode.id=1\nversion=1\n", r"its meta.properties says another. .* move it away"),
        ("cluster.id={cluster}\nnode.id=5\nversion=1\n", r"belongs to node 5 .* meta.properties; .* move it away"),
        ("cluster.id={cluster}\nnode.id=1\nversion=9\n", r"meta.properties: the data directory has format version 9"),
    ],
)
def test_an_identity_that_says_something_else_is_refused_with_the_remedy(tmp_path: Path, text: str, said: str) -> None:
    cluster = make_data(tmp_path)
    (tmp_path / "meta.properties").write_text(text.format(cluster=cluster))
    assert_refused(tmp_path, match=said)
    (tmp_path / "meta.properties").unlink()
    assert_served(tmp_path, cluster)


def test_logs_without_identity_and_metadata_are_refused(tmp_path: Path) -> None:
    make_data(tmp_path)
    for name in ("metadata", "metadata.copy", "meta.properties", "journal.0", "journal.1"):
        (tmp_path / name).unlink()
    for path in tmp_path.glob("*-checkpoint"):
        path.unlink()
    assert_refused(
        tmp_path, match=r"meta.properties is missing and so is the metadata, but there are logs \(orders-0\)"
    )


@pytest.mark.parametrize(
    ("files", "mark"),
    [
        ({"meta.properties": "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=y\n"}, "directory.id"),
        ({"meta.properties": "#\nversion=0\ncluster.id=x\nbroker.id=1\n"}, "broker.id"),
        ({"__cluster_metadata-0/quorum-state": "{}"}, "__cluster_metadata-0"),
        ({"bootstrap.checkpoint": ""}, "bootstrap.checkpoint"),
    ],
)
def test_a_directory_of_kafka_is_recognised_and_refused(tmp_path: Path, files: dict[str, str], mark: str) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert_refused(tmp_path, match=rf"is a data directory of Apache Kafka \(.*{mark}\).*give Semel an empty directory")


def test_a_first_start_that_only_left_its_identity_is_finished(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("cluster.id=founded\nnode.id=1\nversion=1\n")
    with Broker(tmp_path) as broker, RawClient(broker.port) as client:
        assert cluster_id(client) == "founded"


@pytest.mark.parametrize("path", ["*/metadata", "*/metadata.copy"])
def test_a_topic_for_which_there_is_no_room_is_refused_and_made_when_there_is(path: str) -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        disk = broker.disk
        assert isinstance(disk, VirtualDisk)
        disk.fail(DiskFault(Operation.WRITE, path, error=errno.ENOSPC, times=None))
        request = CreateTopicsRequest(topics=[CreatableTopic("orders", 1, 1)])
        for _ in range(2):
            (refused,) = client.call(ApiKey.CREATE_TOPICS, 7, request).topics
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "nothing was changed" in refused.error_message
        disk.repair()
        (created,) = client.call(ApiKey.CREATE_TOPICS, 7, request).topics
        assert created.error_code == ErrorCode.NONE
        client.produce("orders", batch(b"paid"))
        broker.restart(kill=True)
        with RawClient(broker.port) as again:
            assert values(again.fetch("orders", 0)) == [(0, b"paid")]
