"""Switches logging off while scenes are played: clients and brokers would log the faults that a scene shows anyway."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_log() -> Iterator[None]:
    """A context in which nothing of Semel is logged; afterwards logging is as before."""
    logger = logging.getLogger("semel")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
