"""What documents say of the code: files, and functions in them, in backticks.

`log/admission.py`                               a file, below src/semel or from the root of the repository
`log/partition_log.py: PartitionLog.append`      a function, a class, a method or a constant in it
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.documentation.blocks import ROOT

_REFERENCE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*\.py)(?:: ([A-Za-z_][\w.]*))?`")
_FENCED = re.compile(r"^```.*?^```\s*$", re.DOTALL | re.MULTILINE)
_FOLDERS = (ROOT / "src" / "semel", ROOT / "src", ROOT)


@dataclass(frozen=True, slots=True)
class Reference:
    path: str
    name: str | None = None

    def __str__(self) -> str:
        return self.path if self.name is None else f"{self.path}: {self.name}"


def references_in(text: str) -> list[Reference]:
    """In the order of the text, without what is in fenced blocks."""
    return [Reference(path, name or None) for path, name in _REFERENCE.findall(_FENCED.sub("", text))]


def exists(reference: Reference) -> bool:
    found = next((folder / reference.path for folder in _FOLDERS if (folder / reference.path).is_file()), None)
    return found is not None and (reference.name is None or reference.name in _names_in(found))


@cache
def _names_in(path: Path) -> frozenset[str]:
    """Names that the file defines: at its top, and in classes at its top as ``Class.name``."""
    names: set[str] = set()
    for statement in ast.parse(path.read_text()).body:
        names.update(_defined(statement))
        if isinstance(statement, ast.ClassDef):
            names.update(f"{statement.name}.{name}" for member in statement.body for name in _defined(member))
    return frozenset(names)


def _defined(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
