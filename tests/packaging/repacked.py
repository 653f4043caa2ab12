"""Wheels of packages that are installed here, packed again from their files: for pip where nothing can be fetched.

So ``pip install`` resolves what a distribution says it needs, and a dependency that it does not name is missing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def repack(requirements: Iterable[str], folder: Path) -> None:
    """Write the wheels of these packages, and of what they need in turn, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    packed: set[str] = set()
    wanted = [*requirements]
    while wanted:
        requirement = Requirement(wanted.pop())
        found = distribution(requirement.name)
        if found.name not in packed:
            packed.add(found.name)
            _pack(found, folder)
        for extra in ("", *requirement.extras):
            wanted += [needed for needed in found.requires or () if _is_wanted(needed, extra)]


def _is_wanted(needed: str, extra: str) -> bool:
    marker = Requirement(needed).marker
    return marker is None or marker.evaluate({"extra": extra})


def _pack(found: Distribution, folder: Path) -> None:
    tags = [line.removeprefix("Tag: ") for line in (found.read_text("WHEEL") or "").splitlines() if "Tag: " in line]
    assert tags, f"{found.name} was not installed from a wheel"
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(sorted({tag.rpartition("-")[2] for tag in tags}))
    name = f"{found.name.replace('-', '_')}-{found.version}-{python}-{abi}-{platforms}.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for file in found.files or ():
            # What pip has made itself, commands and compiled modules, it makes again.
            if ".." not in file.parts and "__pycache__" not in file.parts:
                wheel.write(str(file.locate()), str(file))
