"""A virtual disk with one empty file in /data, which a power cut leaves where it is."""

from __future__ import annotations

from random import Random

from semel.testing.virtual.disk import VirtualDisk


def disk_with_file(path: str, seed: int = 0) -> VirtualDisk:
    disk = VirtualDisk(Random(seed))
    disk.make_folder("/data")
    disk.open(path, create=True)
    disk.sync_directory("/data")
    disk.sync_directory("/")
    return disk
