"""Text files with a checksum: what is not what this program writes is refused, also where the checksum is right."""

from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log import checked_text
from semel.log.disk import write_file
from semel.log.durability import partition_checkpoint
from semel.log.recovery.last_run import LastRun
from semel.testing.virtual.disk import VirtualDisk


def sealed(body: bytes) -> bytes:
    return body + f"crc32c: {checked_text.checksum(body)}\n".encode()


@pytest.mark.parametrize("body", [b"", b"version: 2\n", b"version: 1\nkey\n", b"version: 1\nkey: \xff\n"])
def test_text_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        checked_text.decode(sealed(body), version=1)


@pytest.mark.parametrize("line", ["topic_id: x", "recovery_point: many", "epoch: 1", "epoch: 1 2 3", "epoch: a b"])
def test_a_checkpoint_of_a_partition_with_no_number_or_no_id_is_refused(line: str) -> None:
    fields = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "recovery_point": "1", "log_start_offset": "0"}
    key, _, value = line.partition(": ")
    text = "".join(f"{name}: {said}\n" for name, said in ({"version": "1"} | fields | {key: value}).items())
    with pytest.raises(DecodeError):
        partition_checkpoint.decode(sealed(text.encode()))


@pytest.mark.parametrize("lost", ["x 0", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA x"])
def test_a_last_run_that_lost_what_has_no_name_is_one_that_is_not_known(lost: str) -> None:
    disk = VirtualDisk()
    disk.make_folder("/data")
    write_file(disk, "/data/last-run", sealed(f"version: 1\nboot_id: clean\nlost: {lost}\n".encode()))
    assert LastRun.read(disk, "/data", has_logs=True).machine_died
