"""A full disk, no descriptors, hanging syncs, a missing directory: twenty runs of each with real processes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tools.disk_run import disk_in_trouble
from tools.disk_trouble import KINDS, server_on
from tools.run_result import to_json
from tools.server import running

COUNT = 80
AT_ONCE = 2
TROUBLES = 3


def run(seed: int) -> dict[str, Any]:
    kind = KINDS[seed % len(KINDS)]
    with (
        tempfile.TemporaryDirectory(prefix="semel-disk-") as folder,
        server_on(Path(folder), kind) as server,
        running(server),
    ):
        return to_json(disk_in_trouble(server, kind, seed=seed, troubles=TROUBLES))
