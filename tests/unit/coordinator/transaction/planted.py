"""The transaction shard with a bug planted in its source.

The modules that decide are executed once more from their source, with one piece of it replaced, and import each other
instead of the real ones. Nothing of the real ones changes.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple

from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.shard import TransactionShard
from tests.unit.coordinator.transaction.bench import Bench

_PACKAGE: Final = "semel.coordinator.transaction"
_DECIDING: Final = ("transitions", "decisions", "listing", "shard")
"""In the order in which they import each other."""


class Bug(NamedTuple):
    module: str
    right: str
    wrong: str


def planted(bug: Bug | None) -> Mapping[str, ModuleType]:
    """The modules, by name. Without a bug they are mere copies."""
    names = _DECIDING if bug is None or bug.module in _DECIDING else (bug.module, *_DECIDING)
    modules: dict[str, ModuleType] = {}
    for name in names:
        real = importlib.import_module(f"{_PACKAGE}.{name}")
        source = inspect.getsource(real)
        if bug is not None and bug.module == name:
            assert source.count(bug.right) == 1, f"{name} has {bug.right!r} {source.count(bug.right)} times"
            source = source.replace(bug.right, bug.wrong)
        module = ModuleType(real.__name__)
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _importer(modules)}
        exec(compile(source, f"<planted {name}>", "exec"), module.__dict__)
        modules[name] = module
    return modules


def make_shard(bug: Bug | None) -> Callable[..., TransactionShard]:
    return planted(bug)["shard"].TransactionShard  # type: ignore[no-any-return]


def make_bench(bug: Bug | None, settings: TransactionSettings | None = None) -> Bench:
    modules = planted(bug)
    bench = Bench(settings or TransactionSettings(), modules["shard"].TransactionShard)
    if "records" in modules:
        bench.encode, bench.decode = modules["records"].encode, modules["records"].decode
    return bench


def _importer(modules: Mapping[str, ModuleType]) -> Callable[..., Any]:
    def import_(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        package, _, stem = name.rpartition(".")
        if package == _PACKAGE and stem in modules:
            return modules[stem]
        if name == _PACKAGE and fromlist:
            holder = ModuleType(_PACKAGE)
            for each in fromlist:
                holder.__dict__[each] = modules.get(each) or importlib.import_module(f"{_PACKAGE}.{each}")
            return holder
        return __import__(name, globals, locals, fromlist, level)

    return import_
