"""Attacks with seeded random requests of every API and version: valid ones, and mutated ones."""

from __future__ import annotations

from collections import deque

from tools.hostile.attack_connection import AttackConnection
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.fuzz import mutated, requests

FRAMES = 20_000
_OPEN_AT_ONCE = 200
_PATIENCE_S = 0.01


def _fuzz(context: AttackContext, frames: int, *, broken: bool) -> None:
    """Send each frame on a connection of its own. If too many are open, the oldest one is closed."""
    opened: deque[AttackConnection] = deque()
    source = requests(context.random)
    try:
        for _ in range(frames):
            if context.expired:
                break
            frame = next(source)
            client = context.connect(timeout_s=5)
            client.send(mutated(frame, context.random) if broken else frame)
            opened.append(client)
            if len(opened) > _OPEN_AT_ONCE:
                _end(context, opened.popleft())
    finally:
        while opened:
            _end(context, opened.popleft())


def _end(context: AttackContext, client: AttackConnection) -> None:
    client.socket.settimeout(_PATIENCE_S)
    try:
        context.answers["answered" if client.socket.recv(16) else "closed"] += 1
    except TimeoutError:
        context.answers["waiting"] += 1
    except OSError:
        context.answers["closed"] += 1
    client.close()


@attack
def fuzz_of_valid_requests(context: AttackContext) -> None:
    _fuzz(context, context.times(FRAMES, least=500), broken=False)


@attack
def fuzz_of_mutated_requests(context: AttackContext) -> None:
    _fuzz(context, context.times(FRAMES, least=500), broken=True)
