"""What is left of a client that was not closed when the interpreter exits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from semel.blocking import Admin
from semel.testing import Broker
from tools.patience import PATIENCE_S

# Its exit handler runs after those of all modules that are imported later.
PROGRAM = """
import atexit
import sys
import threading

def last() -> None:
    alive = [thread.name for thread in threading.enumerate() if thread.name.startswith("semel")]
    print(f"{alive=}")
    try:
        producer.send("numbers", b"too late")
    except StateError as error:
        print(error)
    producer.close()
    print(f"{sent.done()=} {sent.result().offset=}")
    consumer.close()

atexit.register(last)

from semel.blocking import Admin, Consumer, Producer
from semel.errors import StateError

servers = sys.argv[1]
admin = Admin(bootstrap_servers=servers)
consumer = Consumer(bootstrap_servers=servers, group_id="readers")
consumer.subscribe(["numbers"])
while not consumer.assignment:
    consumer.poll(100)
producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
sent = producer.send("numbers", b"one")
"""

TOLD = """alive=[]
the producer sends nothing any more: the interpreter exits
sent.done()=True sent.result().offset=0
"""


@pytest.mark.parametrize("how", ["at its end", "by an exception"])
def test_threads_end_before_the_interpreter_and_a_later_exit_handler_can_still_close(tmp_path: Path, how: str) -> None:
    """A thread of uvloop that is woken when the interpreter is gone ends the process with SIGSEGV."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + ("" if how == "at its end" else "raise SystemExit(3)\n"))
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        done = subprocess.run(
            [sys.executable, str(program), broker.bootstrap_servers],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            members = admin.groups.describe("readers").members
    assert (done.returncode, done.stdout, done.stderr) == (0 if how == "at its end" else 3, TOLD, "")
    assert not members, "the consumer has left its group"
