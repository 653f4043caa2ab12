"""A broker on a disk whose syncs hang while FILE exists: ``python -m tools.hanging_broker FOLDER PORT FILE``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.cli.running import run_broker
from semel.clock import SystemClock
from semel.log.disk import SystemDisk, SystemFile
from semel.log.worker import ThreadWorker
from semel.net.network import SystemNetwork
from semel.types import Address, Buffer


class HangingDisk(SystemDisk):
    def __init__(self, hangs: Path) -> None:
        self._hangs = hangs

    def open(self, path: str, *, create: bool = False) -> SystemFile:
        file = super().open(path, create=create)
        descriptor, file._descriptor = file._descriptor, -1
        return HangingFile(path, descriptor, self)

    def wait(self) -> None:
        while self._hangs.exists():
            time.sleep(0.01)

    def sync_directory(self, folder: str) -> None:
        self.wait()
        super().sync_directory(folder)

    def sync_all(self, folder: str) -> None:
        self.wait()
        super().sync_all(folder)


class HangingFile(SystemFile):
    __slots__ = ("_disk",)

    def __init__(self, path: str, descriptor: int, disk: HangingDisk) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def write_many(self, position: int, data: Sequence[Buffer], *, sync: bool = False) -> None:
        if sync:
            self._disk.wait()
        super().write_many(position, data, sync=sync)

    def sync(self) -> None:
        self._disk.wait()
        super().sync()


def main(folder: str, port: str, hangs: str) -> int:
    clean = run_broker(
        lambda loop: Broker(
            BrokerConfig.load("", {"log.dirs": folder}),
            listen=Address("127.0.0.1", int(port)),
            disk=HangingDisk(Path(hangs)),
            network=SystemNetwork(),
            clock=SystemClock(),
            random=SystemRandom(),
            make_worker=lambda name: ThreadWorker(loop, name),
        ),
        ready=lambda broker: print(broker.address.port, flush=True),
    )
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
