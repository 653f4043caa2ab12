"""Install into ``.venv`` the packages that ``pyproject.toml`` requires, and do nothing if they are already installed.

Every ``make`` target runs this first, with the Python that the machine has. So it uses only the standard library and
syntax that an old interpreter can parse: on an old Python it must still print that the version is too old. A stamp file
in the environment has the hash of ``pyproject.toml`` and the extra; while it matches, no network is needed.

    python3 tools/bootstrap.py           with all extras, for development
    python3 tools/bootstrap.py spark     with this extra only, for `make demo`; an environment with all extras is enough
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
DEVELOPMENT = "dev"  # This extra includes all others.


def main() -> int:
    extra = sys.argv[1] if len(sys.argv) > 1 else DEVELOPMENT
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "bootstrap.lock").open("w") as lock:
        # Two make commands at the same time must not install into the folder at the same time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if up_to_date(extra):
            return 0
        return build(extra)


def stamp_of(extra: str) -> str:
    pyproject = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(pyproject + extra.encode()).hexdigest()


def up_to_date(extra: str) -> bool:
    # The interpreter is checked too: if its Python was uninstalled, .venv has only dead links to it.
    if not STAMP.exists() or not (VENV / "bin" / "python").exists():
        return False
    return STAMP.read_text() in (stamp_of(extra), stamp_of(DEVELOPMENT))


def build(extra: str) -> int:
    python = VENV / "bin" / "python"
    is_new = not STAMP.exists()
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
    why = SIZES.get(extra, "") if is_new else "because pyproject.toml changed, or more is needed than there was"
    say(f"installing semel[{extra}] into .venv, {why}")
    # Without build isolation pip does not download packages that are already installed.
    if run([python, "-m", "pip", "install", *QUIET, "setuptools>=77.0.3"]) != 0:
        return refuse("pip could not install setuptools; the lines above say why (no network?)")
    target = f"{ROOT}[{extra}]"
    # The first installation takes minutes: pip shows its downloads, with a progress bar on a terminal.
    options = QUIET[1:] if is_new else QUIET
    if run([python, "-m", "pip", "install", *options, "--no-build-isolation", "--editable", target]) != 0:
        return refuse(f"pip could not install the packages of semel[{extra}]; the lines above say why (no network?)")
    STAMP.write_text(stamp_of(extra))
    return 0


QUIET = ["--quiet", "--disable-pip-version-check", "--no-input"]
SIZES = {"spark": "0.9 GB, most of it Spark", "dev": "1.2 GB, most of it Spark"}


def new_enough_python() -> "str | None":
    if sys.version_info >= PYTHON_MIN:
        return sys.executable
    for minor in range(19, PYTHON_MIN[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        # pyenv leaves shims on PATH for versions that cannot be run, so each one is tried.
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
