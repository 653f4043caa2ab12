"""Ports for the servers of tests, campaigns and benchmarks: no two servers of this machine get the same one."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import socket
import tempfile
from collections.abc import Sequence
from typing import Final

HOST: Final = "127.0.0.1"
# Below the ports that the system uses for outgoing connections (from 32768 on Linux, from 49152 on others): one of
# those could be used by a connection of any client while a killed broker is down, even by one to the broker itself.
# A broker binds its port again when it is restarted, and fails with an error if the port is in use.
_PORTS: Final = range(10_000, 32_000)


_TRIES: Final = 1_000


def free_port(among: Sequence[int] = _PORTS) -> int:
    """Return a port that is free, and that this function returns to no other caller while this process runs."""
    tries = random.SystemRandom().sample(among, min(_TRIES, len(among)))
    for port in tries:
        if _is_free(port) and _reserve(port):
            return port
    raise RuntimeError(f"all of {len(tries)} ports that were tried are in use, such as {tries[0]}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


_own: set[int] = set()


def _reserve(port: int) -> bool:
    """Keep the port for this process until it ends: other processes must not return it before a server binds it."""
    # A lock does not refuse the process that holds it.
    if port in _own:
        return False
    try:
        fcntl.lockf(_lock_file(os.getpid()), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    _own.add(port)
    return True


@functools.cache
def _lock_file(process: int) -> int:
    """Return a descriptor of the file whose bytes stand for the ports. A process opens it once and never closes it:
    the system drops all locks that a process has on a file when the process closes any descriptor of it."""
    path = os.path.join(tempfile.gettempdir(), f"semel-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
