"""Redaction: hides the secrets among the source's options wherever Spark shows options: plans, its UI, its event log.

Spark prints the options of a source with the plan, and hides those whose name or value matches
``spark.redaction.regex``. That does not match a private key. So the names of all secret options are added to the
session's own pattern. A Spark Connect server also prints the plan that the client sent, as text in which options are
pairs of key and value: for that the session has a second pattern, for texts.
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
# The value in quotes, with escapes. A pattern with an alternative for each character would overflow the stack of Java's
# regex engine.
_PAIR: Final = rf'(?i)"{_NAMES}"\s+value: "[^"\\]*(?:\\.[^"\\]*)*+"'


def hide_secrets(spark: SparkSession) -> None:
    """Hide secret options in every plan of this session from now on. The session's own patterns are kept."""
    _add(spark, _OPTIONS, f"(?i)^{_NAMES}$")
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _add(spark, _TEXTS, _PAIR)


def _add(spark: SparkSession, name: str, pattern: str) -> None:
    hidden = spark.conf.get(name, "") or ""
    if pattern not in hidden:
        spark.conf.set(name, f"{hidden}|{pattern}" if hidden else pattern)
