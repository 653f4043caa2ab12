"""Attacks with seeded random requests of every API and version: valid ones, and mutated ones."""

from __future__ import annotations

from collections import deque

from tools.hostile.aim import Aim, attack
from tools.hostile.fuzz import mutated, requests
from tools.hostile.stranger import Stranger

FRAMES = 20_000
_OPEN_AT_ONCE = 200
_PATIENCE_S = 0.01


def _fuzz(aim: Aim, frames: int, *, broken: bool) -> None:
    """Send each frame on a connection of its own. If too many are open, the oldest one is closed."""
    opened: deque[Stranger] = deque()
    source = requests(aim.random)
    try:
        for _ in range(frames):
            if aim.expired:
                break
            frame = next(source)
            client = aim.stranger(timeout_s=5)
            client.send(mutated(frame, aim.random) if broken else frame)
            opened.append(client)
            if len(opened) > _OPEN_AT_ONCE:
                _end(aim, opened.popleft())
    finally:
        while opened:
            _end(aim, opened.popleft())


def _end(aim: Aim, client: Stranger) -> None:
    client.socket.settimeout(_PATIENCE_S)
    try:
        aim.answers["answered" if client.socket.recv(16) else "closed"] += 1
    except TimeoutError:
        aim.answers["waiting"] += 1
    except OSError:
        aim.answers["closed"] += 1
    client.close()


@attack
def fuzz_of_valid_requests(aim: Aim) -> None:
    _fuzz(aim, aim.times(FRAMES, least=500), broken=False)


@attack
def fuzz_of_mutated_requests(aim: Aim) -> None:
    _fuzz(aim, aim.times(FRAMES, least=500), broken=True)
