"""Whether a client makes spans: only where the application has a tracer provider of OpenTelemetry.

The law: an application without one imports nothing of OpenTelemetry by this client, and pays for nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from semel.client.spans import Spans


def spans_of(provider: TracerProvider | None, *, client_id: str, group_id: str | None = None) -> Spans | None:
    """Spans of this provider, or of the global one; ``None`` if there is none, or one that makes no spans.

    An application that has set the global one has imported the API before.
    """
    if provider is None and "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    chosen = trace.get_tracer_provider() if provider is None else provider
    if isinstance(chosen, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    from semel.client.spans import Spans

    return Spans(chosen, client_id=client_id, group_id=group_id)
