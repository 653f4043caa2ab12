"""Make ``.venv`` what ``pyproject.toml`` asks for, and do nothing when it already is.

Every ``make`` target calls this first, with whatever Python the machine has, so it uses the standard library only and
keeps to syntax that an old interpreter can parse: that one must still be able to say that it is too old. A stamp in the
environment holds the hash of what it was built from; while that matches, no network is needed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON_MIN = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".semel-stamp"
CACHE = ROOT / ".cache"
EXTRAS = "dev"


def main() -> int:
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "bootstrap.lock").open("w") as lock:
        # Two make commands at once must not install into the same folder at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if up_to_date():
            return 0
        return build()


def wanted_stamp() -> str:
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(pyproject + EXTRAS.encode()).hexdigest()


def up_to_date() -> bool:
    # The interpreter is followed too: a .venv whose Python was uninstalled is a folder full of dead links.
    return STAMP.exists() and STAMP.read_text() == wanted_stamp() and (VENV / "bin" / "python").exists()


def build() -> int:
    python = VENV / "bin" / "python"
    if not python.exists():
        chosen = new_enough_python()
        if chosen is None:
            asked = ".".join(map(str, PYTHON_MIN))
            found = ".".join(map(str, sys.version_info[:3]))
            return refuse(
                f"Semel needs Python {asked} or newer; {sys.executable} is {found} and no newer one is on PATH.\n"
                f"Install one, or name it: make PYTHON=/path/to/python3.12 ..."
            )
        say(f"creating .venv with {chosen}")
        if run([chosen, "-m", "venv", str(VENV)]) != 0:
            shutil.rmtree(VENV, ignore_errors=True)
            return refuse(f"{chosen} -m venv failed. On Debian and Ubuntu: apt-get install python3-venv")
    say(f"installing semel[{EXTRAS}] into .venv (only when pyproject.toml changed)")
    # Without build isolation pip asks the network for nothing that is already installed.
    if run([python, "-m", "pip", "install", *QUIET, "setuptools>=68"]) != 0:
        return refuse("pip could not install setuptools; the lines above say why (no network?)")
    target = f"{ROOT}[{EXTRAS}]"
    if run([python, "-m", "pip", "install", *QUIET, "--no-build-isolation", "--editable", target]) != 0:
        return refuse("pip could not install the development packages; the lines above say why (no network?)")
    STAMP.write_text(wanted_stamp())
    return 0


QUIET = ["--quiet", "--disable-pip-version-check", "--no-input"]


def new_enough_python() -> "str | None":
    if sys.version_info >= PYTHON_MIN:
        return sys.executable
    for minor in range(19, PYTHON_MIN[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        # pyenv leaves shims on PATH for versions it will not run: ask before believing.
        if found and run([found, "-c", "import venv"], quiet=True) == 0:
            return found
    return None


def run(command: "list[str | Path]", quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.call([str(part) for part in command], stdout=output, stderr=output, env=clean)


def say(sentence: str) -> None:
    print(f"semel: {sentence}", flush=True)


def refuse(reason: str) -> int:
    print(f"semel: {reason}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
