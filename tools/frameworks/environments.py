"""A virtual environment for each framework, because it may need other versions of packages than Semel does."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.kafka_jars import cache

ROOT: Final = Path(__file__).resolve().parent.parent.parent
_REQUIREMENTS: Final = Path(__file__).resolve().parent / "requirements"


def python_of(name: str, *, with_semel: bool = False) -> Path:
    """Return the interpreter of an environment with the packages of ``requirements/NAME.txt``, made on first use."""
    requirements = _REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = cache() / f"framework-{name}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"semel: an environment for {name}, once, in {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    if with_semel:  # The current source.
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--editable", str(ROOT)], check=True)
    return python


def version_of(name: str, package: str) -> str:
    """Return the pinned version of a package."""
    for line in (_REQUIREMENTS / f"{name}.txt").read_text().splitlines():
        found, _, version = line.partition("==")
        if found.lower().replace("_", "-") == package:
            return version
    raise KeyError(f"{package} is not in requirements/{name}.txt")
