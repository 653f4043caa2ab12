"""No request has to import the code that serves it once a broker has run for a moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import semel

SOURCES = Path(semel.__file__).parent
SERVING = ("broker/coordinators", "broker/fetch", "broker/produce", "broker/requests/handlers", "coordinator")
# Used by documents only.
NOT_SERVING = {"semel.coordinator.transaction.state_diagram"}

PROGRAM = """
import sys
from semel.cli.imports import import_rest

import_rest()
print("\\n".join(sys.modules))
"""


def test_everything_that_serves_requests_is_imported() -> None:
    imported = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    files = [file for folder in SERVING for file in (SOURCES / folder).rglob("*.py")]
    modules = {".".join(file.relative_to(SOURCES.parent).with_suffix("").parts) for file in files}
    modules = {module.removesuffix(".__init__") for module in modules}

    assert len(modules) > 100
    assert modules - set(imported.splitlines()) == NOT_SERVING
