"""The folder of a sink that writes files: driver and executors see it under the same path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.spark.refusals import Refused

_URL: Final = re.compile(r"\w+://")


@dataclass(frozen=True, slots=True)
class SharedFolder:
    path: Path
    is_url: bool

    @classmethod
    def at(cls, path: str | Path) -> SharedFolder:
        return cls(Path(path).absolute(), bool(_URL.match(str(path))))

    def check(self, sink: str) -> None:
        """Raises ``Refused`` if the path is a URL."""
        if self.is_url:
            raise Refused(f"{sink}: the path is that of a folder which driver and executors share, not a URL")
