"""Names that a package has without importing them: each is imported when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping


def on_demand(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of a package. ``homes`` says which module has which name."""

    def attribute(name: str) -> object:
        if name in homes:
            import importlib

            return getattr(importlib.import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return attribute, names
