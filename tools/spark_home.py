"""Makes a SPARK_HOME with which Python workers import the installed PySpark, and not the one in an archive.

Spark puts ``$SPARK_HOME/python/lib/pyspark.zip`` first on the import path of its Python processes. The archive has no
compiled modules, so every process compiles PySpark again: 1.2 s of processor time instead of 0.5. Spark waits ten
seconds for such a process, which no setting changes; on a busy machine that is too short, and queries fail.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Final

from tools.kafka_jars import cache

_LINKED: Final = ("bin", "jars", "sbin")


def use_installed_pyspark() -> None:
    """Set ``SPARK_HOME`` for this process and its children, unless it is set, or there is no PySpark."""
    found = importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or found is None or found.origin is None:
        return
    installed = Path(found.origin).parent
    home = cache() / f"spark-home-{hashlib.sha256(bytes(installed)).hexdigest()[:12]}"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=home.parent))
        for name in _LINKED:
            (made / name).symlink_to(installed / name)
        try:
            made.rename(home)
        except OSError:
            if not home.exists():  # Otherwise another process was faster.
                raise
    os.environ["SPARK_HOME"] = str(home)
