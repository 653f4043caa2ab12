"""Single requests of the Kafka protocol to a broker, one connection each, so that it may be killed between two."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tools.frames import receive_frame
from tools.patience import PATIENCE_S


def send_request(
    bootstrap_servers: str, key: ApiKey, version: int, message: object, *, timeout_s: float = PATIENCE_S
) -> Any:
    """Send a request to the first broker that can be reached, and return the response.

    Raises OSError if no broker can be reached or the response does not arrive in time.
    """
    first, *others = bootstrap_servers.split(",")
    for server in others:
        with contextlib.suppress(OSError):
            return _send_request(first, key, version, message, timeout_s)
        first = server
    return _send_request(first, key, version, message, timeout_s)


def _send_request(server: str, key: ApiKey, version: int, message: object, timeout_s: float) -> Any:
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
        connection.sendall(encode_request(1, APIS[key], version, message, client_id="semel-tools"))
        frame = receive_frame(connection)
    _, position = decode_response_header(frame, APIS[key], version)
    return decode(APIS[key].response_class, frame, version, position)


def committed_offsets(
    bootstrap_servers: str, group: str, topic: str, partitions: int, *, timeout_s: float = PATIENCE_S
) -> list[int]:
    """Return a group's committed offset of each partition, 0 if it has none.

    Waits until no open transaction has offsets of these partitions (``require_stable``).
    """
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, list(range(partitions)))], require_stable=True)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            # The first FindCoordinator request creates the coordinator's topic.
            found_at = send_request(
                bootstrap_servers, ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group, key_type=0)
            )
            answer = send_request(f"{found_at.host}:{found_at.port}", ApiKey.OFFSET_FETCH, 7, request)
            found = answer.topics[0].partitions if answer.error_code == 0 else ()
            if found and all(partition.error_code == 0 for partition in found):
                offsets = {partition.partition_index: partition.committed_offset for partition in found}
                return [offsets[partition] or 0 for partition in range(partitions)]
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"the offsets of group {group} were not to be had within {timeout_s:.0f} s")
        time.sleep(0.1)
