"""Every list of every request, made so long that the request is served in slices: it is answered or refused, without a
traceback, and all that it took is given back when its answer has left."""

from __future__ import annotations

import dataclasses
import gc
import logging
from collections import Counter

import pytest

from semel.broker.requests.routes import served_apis
from semel.testing import Broker
from semel.wire.apis import Api
from semel.wire.schema import Field, fields_of
from tools.hostile.attack_connection import SILENT, AttackConnection
from tools.hostile.attacks.requests import frame_of
from tools.hostile.attacks.widened import CHOSEN, lists_of, widened

ELEMENTS = 1200
WIDE = [(api, way) for api in served_apis() for way in lists_of(api.request_class, api.max_version)]


@pytest.mark.parametrize(
    ("api", "way"), WIDE, ids=[f"{api.name}-{'-'.join(field.name for field in way)}" for api, way in WIDE]
)
def test_a_wide_request_fails_in_no_handler_and_leaves_no_circles(
    broker: Broker, caplog: pytest.LogCaptureFixture, api: Api, way: tuple[Field, ...]
) -> None:
    """Objects that refer to each other in a circle are freed by the garbage collector only, and it does not look at
    those of a large request: they would be kept for good."""
    message = widened(api.request_class, way, api.max_version, ELEMENTS)
    chosen = {name: value for name, value in CHOSEN.items() if any(f.name == name for f in fields_of(type(message)))}
    frame = frame_of(api.key, api.max_version, dataclasses.replace(message, **chosen))
    _ask(broker, api, frame)  # Modules and decoders that the first one needs.
    gc.collect()
    gc.disable()
    try:
        assert _ask(broker, api, frame) != SILENT
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage = Counter(type(found).__name__ for found in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert garbage.total() < ELEMENTS, garbage.most_common(5)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def _ask(broker: Broker, api: Api, frame: bytes) -> str:
    with AttackConnection(broker.port, timeout_s=60) as client:
        response = client.ask_frame(api.key, api.max_version, frame)
    return response if isinstance(response, str) else "answered"
