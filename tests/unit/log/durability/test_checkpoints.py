from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from semel.errors import DecodeError, StorageError
from semel.log.disk import SystemDisk
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import MetaProperties
from semel.types import TopicPartition

TOPIC_ID = UUID("12345678-9abc-def0-1234-56789abcdef0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_offsets_are_read_as_they_were_written(path: Path) -> None:
    offsets = {TopicPartition("orders", 3): 12, TopicPartition("__consumer_offsets", 49): 2**63 - 1}
    checkpoints.write_offsets(SystemDisk(), str(path), offsets)
    assert path.read_bytes() == b"0\n2\norders 3 12\n__consumer_offsets 49 9223372036854775807\n"
    assert checkpoints.read_offsets(SystemDisk(), str(path)) == offsets
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_no_offsets_are_a_file_too(path: Path) -> None:
    checkpoints.write_offsets(SystemDisk(), str(path), {})
    assert path.read_bytes() == b"0\n0\n"
    assert checkpoints.read_offsets(SystemDisk(), str(path)) == {}


def test_leader_epochs_are_read_as_they_were_written(path: Path) -> None:
    path.write_bytes(checkpoints.encode_leader_epochs([(0, 0), (4, 17)]))
    assert path.read_bytes() == b"0\n2\n0 0\n4 17\n"
    assert checkpoints.read_leader_epochs(SystemDisk(), str(path)) == [(0, 0), (4, 17)]


def test_topic_id_is_read_as_it_was_written(path: Path) -> None:
    path.write_bytes(checkpoints.encode_partition_metadata(TOPIC_ID))
    assert path.read_bytes() == b"version: 0\ntopic_id: EjRWeJq83vASNFZ4mrze8A\ncrc32c: 330b2c1d\n"
    assert checkpoints.read_topic_id(SystemDisk(), str(path)) == TOPIC_ID


def test_meta_properties_are_read_as_they_were_written(path: Path) -> None:
    properties = MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", node_id=4)
    checkpoints.write_meta_properties(SystemDisk(), str(path), properties)
    assert path.read_bytes() == b"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=4\nversion=1\n"
    assert checkpoints.read_meta_properties(SystemDisk(), str(path)) == properties


def test_meta_properties_of_apache_kafka_are_understood(path: Path) -> None:
    path.write_bytes(
        b"#\n#Thu Jan 01 00:00:00 UTC 2026\nnode.id=1\ndirectory.id=9SjNAmbMSp61CDoXuQIVrg\nversion=1\n"
        b"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    )
    assert checkpoints.read_meta_properties(SystemDisk(), str(path)) == MetaProperties("MkU3OEVBNTcwNTJENDM2Qg", 1)


def test_file_that_is_missing_says_nothing(path: Path) -> None:
    disk = SystemDisk()
    assert checkpoints.read_offsets(disk, str(path)) == {}
    assert checkpoints.read_leader_epochs(disk, str(path)) == []
    assert checkpoints.read_topic_id(disk, str(path)) is None
    assert checkpoints.read_meta_properties(disk, str(path)) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"0\n", id="no count"),
        pytest.param(b"0\n0", id="no end of line"),
        pytest.param(b"0\n1\norders 3 1", id="a last line that may be cut off"),
        pytest.param(b"0\n1\norders 3 12\nord", id="half a line behind"),
        pytest.param(b"1\n1\norders 3 12\n", id="another version"),
        pytest.param(b"0\n2\norders 3 12\n", id="an entry too few"),
        pytest.param(b"0\n1\norders 3 12\norders 4 12\n", id="an entry too many"),
        pytest.param(b"0\n1\norders 3\n", id="a field too few"),
        pytest.param(b"0\n1\norders 3 12 5\n", id="a field too many"),
        pytest.param(b"0\n1\n 3 12\n", id="no topic"),
        pytest.param(b"0\n1\norders 3 -1\n", id="a negative offset"),
        pytest.param(b"0\n1\norders 3 1_2\n", id="no number"),
        pytest.param(b"0\n1\norders x 12\n", id="no partition"),
        pytest.param(b"0\n1\norders 3 9223372036854775808\n", id="more than 63 bits"),
        pytest.param(b"0\n1\norders 3 \xd9\xa1\n", id="no plain text"),
        pytest.param(bytes(40), id="zeros"),
    ],
)
def test_nonsense_is_refused_by_name(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(DecodeError, match=str(path)):
        checkpoints.read_offsets(SystemDisk(), str(path))


def test_offsets_cut_at_any_byte_are_refused() -> None:
    data = checkpoints.encode_offsets({TopicPartition("orders", 3): 12, TopicPartition("orders", 4): 345})
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            checkpoints.decode_offsets(data[:size])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version: 0",
        b"topic_id: EjRWeJq83vASNFZ4mrze8A",
        b"version: 1\ntopic_id: EjRWeJq83vASNFZ4mrze8A",
        b"version: 0\ntopic_id: EjRWeJq83vASNFZ4mrze8",
        b"version: 0\ntopic_id: EjRWeJq83vASNFZ4mrz",
        b"version: 0\ntopic_id: ",
        b"version 0\ntopic_id EjRWeJq83vASNFZ4mrze8A",
        bytes(40),
    ],
)
def test_nonsense_is_no_topic_id(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(DecodeError, match=str(path)):
        checkpoints.read_topic_id(SystemDisk(), str(path))


@pytest.mark.parametrize("version", [2, 7])
def test_data_directory_of_a_newer_format_is_refused_with_both_versions(path: Path, version: int) -> None:
    path.write_text(f"version={version}\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\nshape=unheard of\n")
    with pytest.raises(StorageError, match=rf"format version {version}; this program knows versions up to 1\."):
        checkpoints.read_meta_properties(SystemDisk(), str(path))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=a\n",
        b"version=1\ncluster.id=a\nnode.id=b\n",
        b"version\n",
    ],
)
def test_nonsense_is_no_data_directory(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(DecodeError, match=str(path)):
        checkpoints.read_meta_properties(SystemDisk(), str(path))
