"""Whether a client makes spans: only if the application has a tracer provider of OpenTelemetry.

The law: in an application without one, this client imports nothing of OpenTelemetry, and no call costs more.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from semel.client.tracing.spans import Spans


def spans_of(provider: TracerProvider | None, *, client_id: str, group_id: str | None = None) -> Spans | None:
    """Return the spans of this provider, or of the global one; ``None`` if there is none, or it makes no spans.

    An application that has set the global one has imported the API before.
    """
    if provider is None and "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    chosen = trace.get_tracer_provider() if provider is None else provider
    if isinstance(chosen, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    from semel.client.tracing.spans import Spans

    return Spans(chosen, client_id=client_id, group_id=group_id)
