"""Builds and compiles Python source, for the generators of encoders and decoders.

The generated source is registered with ``linecache``, so tracebacks, debuggers and profilers show it like other code.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from struct import Struct
from typing import Any


class Source:
    """The source of one function: its lines, its variable names, and its globals (``namespace``)."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header + ":")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def name(self, stem: str) -> str:
        """Return a unique variable name. ``stem`` makes the generated code readable."""
        self._names += 1
        return f"{stem}_{self._names}"

    def constant(self, value: object) -> str:
        """Return an expression for a value: a literal if possible, otherwise the name of a global that holds it."""
        if value is None or isinstance(value, (bool, int, str, bytes)):
            return repr(value)
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = f"{getattr(value, '__name__', type(value).__name__)}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def packer(self, codes: str) -> str:
        return self._struct_method("pack", codes)

    def unpacker(self, codes: str) -> str:
        return self._struct_method("unpack_from", codes)

    def function(self, name: str, title: str) -> Any:
        text = "\n".join(self._lines) + "\n"
        filename = f"<semel.wire: {title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.namespace)
        return self.namespace[name]

    def _struct_method(self, method: str, codes: str) -> str:
        name = f"{method}_{codes.replace('?', 'Z')}"
        if name not in self.namespace:
            self.namespace[name] = getattr(Struct(">" + codes), method)
        return name
