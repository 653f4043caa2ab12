"""Names that a package has without importing them: each is imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package. ``homes`` says which module has which name."""

    def attribute(name: str) -> object:
        if name in homes:
            import importlib

            return getattr(importlib.import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
