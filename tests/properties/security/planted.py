"""A function of the broker with a bug planted in it, while a test looks for it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import NamedTuple


class Bug(NamedTuple):
    """In ``function``, ``wrong`` stands in the place of ``right``."""

    function: FunctionType
    right: str
    wrong: str


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    function, right, wrong = bug
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1, f"{function.__qualname__} has {right!r} {source.count(right)} times"
    namespace: dict[str, object] = {}
    exec(
        compile(source.replace(right, wrong), f"<planted {function.__qualname__}>", "exec"),
        dict(function.__globals__),
        namespace,
    )
    (copy,) = namespace.values()
    assert isinstance(copy, FunctionType)
    sound = function.__code__
    function.__code__ = copy.__code__
    try:
        yield
    finally:
        function.__code__ = sound
