"""All targets of the fuzzing, one module for each subject."""

from __future__ import annotations

from functools import cache

from tools.fuzz.target import Target
from tools.fuzz.targets import (
    certificates,
    files,
    internal_records,
    messages,
    metadata_store,
    record_batches,
    sasl,
    texts,
)


@cache
def all_targets() -> tuple[Target, ...]:
    subjects = (messages, record_batches, internal_records, files, metadata_store, sasl, certificates, texts)
    return tuple(target for subject in subjects for target in subject.targets())
