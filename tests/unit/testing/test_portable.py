"""The client and the fixture do without what only POSIX has: what macOS or Windows lacks is taken away, and they work.

That is as far as code can tell on another system. What needs signals and process groups, the proof of applications,
says so.
"""

from __future__ import annotations

import subprocess
import sys

# What Windows has not; macOS has all of it but fdatasync, and what is Linux' own.
TAKE_AWAY = """
import asyncio, concurrent.futures, importlib, mmap, multiprocessing, os, pkgutil, signal, socket, ssl, subprocess, sys
import http.client, logging.handlers, shutil, sqlite3, tempfile, urllib.request
MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "uvloop", "syslog")
for name in MODULES:
    sys.modules[name] = None
NAMES = {
    os: ("fdatasync", "fork", "getuid", "killpg", "posix_fadvise", "posix_fallocate", "pread", "preadv", "pwrite",
         "pwritev", "register_at_fork", "sched_getaffinity", "setsid", "sysconf", "writev", "O_CLOEXEC", "O_DIRECTORY"),
    mmap: ("MAP_ANONYMOUS", "MAP_ANON", "MAP_PRIVATE", "MAP_SHARED", "PROT_READ", "PROT_WRITE"),
    signal: ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "pthread_sigmask"),
    socket: ("SO_REUSEPORT",),  # asyncio itself makes pairs of AF_UNIX here.
}
for module, names in NAMES.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""

IMPORT_ALL = """
for package in ("client", "blocking", "wire", "net", "testing"):
    found = importlib.import_module(f"semel.{package}")
    for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
        importlib.import_module(module.name)
"""

ROUND_TRIP = """
from semel.blocking import Consumer, Producer
from semel.testing import Broker
with Broker(num_partitions=1) as broker:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t") as producer, producer.transaction():
        producer.send("orders", bytes(600_000), b"key")
    broker.restart(kill=True)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        assert consumer.poll(60_000)[0].key == b"key"
"""

PROVE = """
from semel.testing import exactly_once
try:
    exactly_once.prove(print, given={"in": [b"1"]}, expect={"out": [b"1"]})
except Exception as error:
    print(error)
"""


def run(*parts: str) -> str:
    done = subprocess.run([sys.executable, "-c", "".join((TAKE_AWAY, *parts))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_client_and_fixture_is_imported_without_what_is_posix() -> None:
    run(IMPORT_ALL)


def test_a_broker_a_producer_and_a_consumer_work_without_what_is_posix() -> None:
    run(ROUND_TRIP)


def test_the_proof_says_that_it_needs_signals() -> None:
    assert "needs the signals of POSIX" in run(PROVE)
