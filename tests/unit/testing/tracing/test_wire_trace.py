"""Frames become events: also those that cannot be read, and none that shows a secret."""

from __future__ import annotations

from semel.testing.tracing.summary_text import text_of
from semel.testing.tracing.wire_trace import WireEvent, WireEventKind, WireTrace
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request, encode_response
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def observed(*frames: tuple[str, bytes]) -> list[WireEvent]:
    events: list[WireEvent] = []
    trace = WireTrace(events.append, clock=lambda: 1.0)
    for method, frame in frames:
        getattr(trace, method)(1, frame)
    return events


def test_a_password_is_counted_and_not_shown() -> None:
    api = APIS[ApiKey.SASL_AUTHENTICATE]
    request = encode_request(7, api, 2, SaslAuthenticateRequest(b"\0alice\0secret"), client_id="a")
    answer = encode_response(7, api, 2, SaslAuthenticateResponse(error_code=58))
    asked, answered = observed(("requested", bytes(request)), ("answered", bytes(answer)))
    assert (asked.client_id, asked.text) == ("a", "SaslAuthenticate v2 auth_bytes='13 bytes'")
    assert (answered.kind, answered.errors) == (WireEventKind.ANSWER, ("SASL_AUTHENTICATION_FAILED",))
    assert "secret" not in repr(asked)


def test_what_cannot_be_read_is_told_all_the_same() -> None:
    unknown = b"\0\0\0\x0a\x7f\xff\0\1\0\0\0\x09\xff\xff"
    newer = b"\0\0\0\x0a\0\0\0\x63\0\0\0\x0a\xff\xff"
    answers = b"\0\0\0\x06\0\0\0\x0a\0\0"
    events = observed(("requested", unknown), ("requested", newer), ("requested", b"\0\0\0\1x"), ("answered", answers))
    assert [(event.api, event.version) for event in events] == [
        ("API 32767", 1),
        ("Produce", 99),
        ("?", -1),
        ("Produce", 99),
    ]
    assert all("bytes" in event.fields for event in events)


def test_long_values_and_lists_are_cut_and_what_is_not_printable_is_quoted() -> None:
    assert text_of({"topics": [f"t{number}" for number in range(9)]}) == "topics=[t0,t1,t2,t3,+5]"
    assert text_of({"name": "a\x1b[31m"}) == "name='a\\x1b[31m'"
    assert len(text_of({"name": "x" * 1000})) < 80
    assert text_of({"at": [{"partition": "t:0", "offset": 1}] * 6}).endswith("t:0(offset=1) and 2 more")
