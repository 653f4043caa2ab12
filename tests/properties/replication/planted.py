"""The decisions about replicas with a bug planted in their source, or in what is around them.

The modules that decide are executed once more from their source, with one piece of it replaced. Nothing of the real
ones changes.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import NamedTuple

from semel.metadata import election
from semel.replication import follower, replica_set
from tests.properties.replication.small_brokers import Core
from tests.properties.replication.small_values import Mistake


class Bug(NamedTuple):
    """In ``module``, ``wrong`` stands in the place of ``right``."""

    module: ModuleType
    right: str
    wrong: str


def planted(bug: Bug | Mistake | None) -> Core:
    """Without a bug, mere copies of the modules."""
    if isinstance(bug, Mistake):
        return Core(mistake=bug)
    copies = [_copy(module, bug) for module in (replica_set, follower, election)]
    return Core(*copies)


def _copy(module: ModuleType, bug: Bug | None) -> ModuleType:
    source = inspect.getsource(module)
    if bug is not None and bug.module is module:
        assert source.count(bug.right) == 1, f"{module.__name__} has {bug.right!r} {source.count(bug.right)} times"
        source = source.replace(bug.right, bug.wrong)
    copy = ModuleType(module.__name__)
    exec(compile(source, f"<planted {module.__name__}>", "exec"), copy.__dict__)
    return copy
