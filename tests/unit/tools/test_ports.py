"""Ports for servers of tests: no two servers get the same one."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
from multiprocessing.connection import Connection

import pytest

from tools.ports import HOST, free_port


@pytest.fixture
def three() -> list[int]:
    """Three ports that are free: a second caller who chooses among them meets the first one's."""
    with contextlib.ExitStack() as probes:
        opened = [probes.enter_context(socket.socket()) for _ in range(3)]
        for probe in opened:
            probe.bind((HOST, 0))
        return sorted(probe.getsockname()[1] for probe in opened)


def test_a_port_is_given_out_once(three: list[int]) -> None:
    assert sorted(free_port(three) for _ in three) == three
    with pytest.raises(RuntimeError, match="all of 3 ports"):
        free_port(three)


def test_a_port_of_another_process_is_given_out_only_after_its_end(three: list[int]) -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    other = spawn.Process(target=_take_one, args=(three, theirs))
    other.start()
    taken = ours.recv()
    assert sorted([taken, free_port(three), free_port(three)]) == three
    with pytest.raises(RuntimeError):
        free_port(three)
    ours.send("done")
    other.join()
    assert free_port(three) == taken


def _take_one(among: list[int], pipe: Connection) -> None:
    pipe.send(free_port(among))
    pipe.recv()
