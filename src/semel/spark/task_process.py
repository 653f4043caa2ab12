"""The process of a Spark task: settings that make short tasks fast.

PySpark runs Python's garbage collector after every task. With all modules that are imported here this takes 40 ms,
longer than a small task, and the next task waits for it. Objects that exist after the imports are never garbage, so
they are excluded once (``gc.freeze``).

Java sends a task its function first and its rows then, and sends the rows only after the function is acknowledged
(Nagle's algorithm). Linux delays that acknowledgement by 40 ms. So the task sets TCP_QUICKACK, and TCP_NODELAY for what
it sends. With Unix sockets (``spark.python.unix.domain.socket.enabled``) there is nothing to do.

A task also keeps some of the memory that it has freed: see ``semel.memory``.
"""

from __future__ import annotations

import gc
import os
import socket
from contextlib import suppress
from typing import Final

from semel.memory import keep_freed_memory

_prepared_pid: int | None = None
_from_java: list[socket.socket] = []

_OPEN_FILES: Final = "/proc/self/fd"

# Room for what a task has fetched and decoded, and for what it has encoded and the broker has not yet acknowledged.
_KEPT_BYTES: Final = 64 * 2**20


def prepare_process() -> None:
    """Prepare the process of this task. It must be called before the task reads its input."""
    global _prepared_pid
    if _prepared_pid != os.getpid():
        _prepared_pid = os.getpid()
        gc.freeze()
        keep_freed_memory(_KEPT_BYTES, one_arena=True)
        _from_java[:] = _tcp_sockets()
        for one in _from_java:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for one in _from_java:
        with suppress(OSError):  # This is about speed only. If the connection is closed, the task will find out itself.
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _tcp_sockets() -> list[socket.socket]:
    """Return the TCP sockets with which this process was started, as it has not opened any itself yet. Empty on systems
    other than Linux."""
    found: dict[str, socket.socket] = {}
    with suppress(OSError):
        for name in os.listdir(_OPEN_FILES):
            with suppress(OSError):
                target = os.readlink(f"{_OPEN_FILES}/{name}")
                if target.startswith("socket:") and target not in found:
                    one = socket.socket(fileno=os.dup(int(name)))
                    if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                        found[target] = one
                    else:
                        one.close()
    return list(found.values())
