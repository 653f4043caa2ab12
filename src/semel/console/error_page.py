"""The error page: it shows the broker's error and what to do."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from semel.console.pages import InvalidRequest, Page
from semel.errors import ErrorCode, KafkaError, SemelError, TimedOut

_NOT_FOUND: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_RETRY_S: Final = 3.0


def error_page(error: SemelError | InvalidRequest, servers: str) -> Page:
    """Return the page for an error. If the error may be temporary, the page is live and is replaced by the wanted one
    when that can be shown."""
    status, advice, title = HTTPStatus.BAD_GATEWAY, [], "That did not work"
    live_every_s: float | None = _RETRY_S
    command = None
    if isinstance(error, InvalidRequest):
        status, title, live_every_s = HTTPStatus.BAD_REQUEST, "That cannot be", None
    elif isinstance(error, TimedOut):
        title = "No broker answers"
        status = HTTPStatus.SERVICE_UNAVAILABLE
        command = f"semel cluster info --bootstrap-server {servers}"
        advice = [
            f"Is one running at {servers}? This page comes back by itself when it is.",
            "Brokers that want TLS or a login do not answer without: semel console --command-config FILE.",
        ]
    elif isinstance(error, KafkaError) and error.code in _NOT_FOUND:
        status, title = HTTPStatus.NOT_FOUND, "It is not there"
        advice = ["It may have been deleted, or its name may be misspelt. Names are case-sensitive."]
    elif isinstance(error, KafkaError) and "AUTHORIZATION_FAILED" in error.code.name:
        status, title = HTTPStatus.FORBIDDEN, "This user may not see it"
        advice = ["The broker's ACLs decide. The page Access shows them to users that may describe the cluster."]
    elif isinstance(error, KafkaError) and error.code is ErrorCode.UNSUPPORTED_VERSION:
        status, title, live_every_s = HTTPStatus.NOT_IMPLEMENTED, "This broker cannot tell that", None
        advice = ["It is older than the request that this page needs. Nothing is made up in its place."]
    values = {"said": str(error), "advice": advice, "line_to_try": command}
    return Page("error.html", title, "", values, live_every_s, status)
