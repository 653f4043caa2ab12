from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.log.disk import File, SystemDisk


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    """An empty index file."""
    file = SystemDisk().open(str(tmp_path / "00000000000000000100.index"), create=True)
    yield file
    file.close()
