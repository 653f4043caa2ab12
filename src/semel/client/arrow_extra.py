"""The imports of numpy and pyarrow, which are extras: a call that needs them says what to install."""

from __future__ import annotations

from types import ModuleType


def arrow_module(name: str, call: str) -> ModuleType:
    """Return the module ``semel.client.arrow.<name>``. ``ImportError`` says what to install for ``call``."""
    import importlib

    try:
        return importlib.import_module(f"semel.client.arrow.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("numpy", "pyarrow"):
            raise
        raise ImportError(f"{call} needs numpy and pyarrow: pip install 'semel[arrow]' ({error})") from error
