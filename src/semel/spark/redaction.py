"""Secrets of the source's options, hidden in what Spark shows of them: plans, its UI, its event log.

Spark prints the options of a source with the plan, and hides those whose name or value looks like a secret to
``spark.redaction.regex``. A private key does not. So the names of all of them are added to the session's own pattern. A
server of Spark Connect prints what its client sent, too, in which options are pairs of key and value: for that the
session has another pattern, of texts.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import SparkSession

from semel.client.security.config import PASSWORD_SETTINGS
from semel.spark.source.options import PREFIX

_OPTIONS: Final = "spark.sql.redaction.options.regex"
_TEXTS: Final = "spark.sql.redaction.string.regex"
_NAMES: Final = f"{re.escape(PREFIX)}(?:{'|'.join(map(re.escape, PASSWORD_SETTINGS))})"
# The value in quotes, with escapes. Java's engine would overflow its stack with one alternative for each character.
_PAIR: Final = rf'(?i)"{_NAMES}"\s+value: "[^"\\]*(?:\\.[^"\\]*)*+"'


def hide_secrets(spark: SparkSession) -> None:
    """In every plan of this session from now on. What the session hides already stays hidden."""
    _add(spark, _OPTIONS, f"(?i)^{_NAMES}$")
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _add(spark, _TEXTS, _PAIR)


def _add(spark: SparkSession, name: str, pattern: str) -> None:
    hidden = spark.conf.get(name, "") or ""
    if pattern not in hidden:
        spark.conf.set(name, f"{hidden}|{pattern}" if hidden else pattern)
