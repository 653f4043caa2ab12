"""The distributions of this checkout, built as ``python -m build`` builds them: the wheel is made from the sdist."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = "import os, sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def build_sdist(folder: Path) -> Path:
    """The sdist. It is built from a copy, because setuptools writes beside what it reads."""
    copy = copy_checkout(folder / "checkout")
    _run_backend("build_sdist", copy, folder)
    return next(folder.glob("*.tar.gz"))


def copy_checkout(target: Path) -> Path:
    """What a clone has, without tests, documents, and what tools have left there."""
    shutil.copytree(
        ROOT, target, ignore=lambda where, names: names if _is_left_out(Path(where)) else {*names} & _NOT_COPIED
    )
    return target


def build_wheel(sdist: Path, folder: Path) -> Path:
    """The wheel, from nothing but the sdist."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    _run_backend("build_wheel", folder / sdist.name.removesuffix(".tar.gz"), folder)
    return next(folder.glob("*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel in it; returns the folder of its commands.

    Dependencies are those of the environment that runs the tests: nothing is fetched.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", "--no-deps"]
    _run([*command, "--no-index", "--disable-pip-version-check", str(wheel)], cwd=folder)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # Paths of a .pth are searched last, and the .pth files in them are not looked at: the checkout is not found.
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


_NOT_COPIED: Final = frozenset(
    {".cache", ".git", ".hypothesis", ".mypy_cache", ".venv", "__pycache__", "build", "dist", "docs", "tests"}
)


def _is_left_out(folder: Path) -> bool:
    return folder.name.endswith(".egg-info")


def _run_backend(hook: str, source: Path, target: Path) -> None:
    _run([sys.executable, "-W", "error::DeprecationWarning", "-c", PROGRAM, hook, str(target)], cwd=source)


def _run(command: list[str], *, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, env=clean_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
