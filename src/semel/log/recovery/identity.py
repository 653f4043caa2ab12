"""The owner of a data directory: Semel, Apache Kafka, or none yet.

The law: existing data is never overwritten by a new cluster. A directory that has logs but no metadata is refused, and
so is one that Kafka wrote: its topics are in a metadata log that Semel does not read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from semel.errors import DecodeError, StorageError
from semel.log.disk import Disk, read_file
from semel.log.durability.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from semel.log.durability.journal import FILE_NAMES as JOURNAL_FILES

logger = logging.getLogger(__name__)

METADATA_FILES: Final = ("metadata", "metadata.copy")

_CHECKPOINTS: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE)
_KAFKA_NAMES: Final = ("__cluster_metadata-0", "bootstrap.checkpoint")
_KAFKA_PROPERTIES: Final = ("directory.id", "broker.id")


def establish(
    disk: Disk, folder: str, default: MetaProperties, in_metadata: Callable[[], MetaProperties | None]
) -> MetaProperties:
    """The properties of the directory: ``default`` if it is new, those of the metadata if its own file is lost.

    Raises ``StorageError``, see ``LogDirectory.acquire``.
    """
    refuse_kafka(disk, folder)
    meta_path = f"{folder}/{META_PROPERTIES_FILE}"
    trouble: str | None = None
    try:
        properties = read_meta_properties(disk, meta_path)
    except DecodeError as error:
        properties, trouble = None, str(error)
    if properties is not None:
        return properties
    properties = in_metadata()
    if properties is None:
        if trouble is None and (trace := trace_of_logs(disk, folder)) is not None:
            trouble = f"{meta_path} is missing and so is the metadata, but there are logs ({trace})"
        if trouble is not None:
            raise StorageError(f"{trouble}. Restore the directory from a backup, or give this broker an empty one")
        properties = default
    else:
        logger.warning("%s: made again from the metadata, %s", trouble or f"{meta_path} is missing", properties)
    write_meta_properties(disk, meta_path, properties)
    return properties


def refuse_kafka(disk: Disk, folder: str) -> None:
    """Raise ``StorageError`` if Apache Kafka wrote this directory."""
    names = set(disk.list(folder))
    if names.intersection(METADATA_FILES):
        return
    marks = [f"it has {name}" for name in _KAFKA_NAMES if name in names]
    if META_PROPERTIES_FILE in names:
        keys = {
            line.partition(b"=")[0].strip() for line in read_file(disk, f"{folder}/{META_PROPERTIES_FILE}").split(b"\n")
        }
        marks += [f"its {META_PROPERTIES_FILE} has {key}" for key in _KAFKA_PROPERTIES if key.encode() in keys]
    if marks:
        raise StorageError(
            f"{folder} is a data directory of Apache Kafka ({marks[0]}), and Semel does not read Kafka's metadata: "
            "give Semel an empty directory, and copy the topics with a client of both"
        )


def trace_of_logs(disk: Disk, folder: str) -> str | None:
    """A name in this directory that only a broker with logs leaves there, or ``None``."""
    for name in disk.list(folder):
        if name in JOURNAL_FILES or name in _CHECKPOINTS or _is_partition_folder(disk, folder, name):
            return name
    return None


def _is_partition_folder(disk: Disk, folder: str, name: str) -> bool:
    topic, dash, number = name.rpartition("-")
    if not (dash and topic and number.isascii() and number.isdigit()):
        return False
    try:
        below = disk.list(f"{folder}/{name}")
    except OSError:
        return False  # A file that happens to have such a name.
    return PARTITION_METADATA_FILE in below or any(file.endswith(".log") for file in below)
