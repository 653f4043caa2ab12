"""A program: a broker on a disk whose syncs hang for ever once there is a file ``hangs`` in its folder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from semel.broker.broker import Address, Broker
from semel.broker.config import BrokerConfig
from semel.cli.running import run_broker
from semel.clock import SystemClock
from semel.log.disk import SystemDisk, SystemFile
from semel.log.worker import ThreadWorker
from semel.net.network import SystemNetwork
from semel.types import Buffer

FOLDER = sys.argv[1]
HANGS = Path(FOLDER, "hangs")


class HangingFile(SystemFile):
    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        super().write_many(position, data)
        if sync:
            self.sync()

    def sync(self) -> None:
        if HANGS.exists():
            threading.Event().wait()
        super().sync()


class HangingDisk(SystemDisk):
    def open(self, path: str, *, create: bool = False) -> SystemFile:
        file = super().open(path, create=create)
        descriptor, file._descriptor = file._descriptor, -1
        return HangingFile(path, descriptor)


if __name__ == "__main__":
    clean = run_broker(
        lambda loop: Broker(
            BrokerConfig.load("", {"log.dirs": FOLDER}),
            listen=Address("127.0.0.1", 0),
            disk=HangingDisk(),
            network=SystemNetwork(),
            clock=SystemClock(),
            random=SystemRandom(),
            make_worker=lambda name: ThreadWorker(loop, name),
        ),
        ready=lambda broker: print(broker.address.port, flush=True),
    )
    sys.exit(0 if clean else 1)
