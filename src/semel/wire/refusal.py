"""Responses that refuse a whole request, for the APIs whose response has an error code at the top level."""

from __future__ import annotations

from semel.errors import ErrorCode
from semel.wire.apis import Api
from semel.wire.schema import fields_of


def whole_refusal(api: Api, version: int, code: ErrorCode, text: str | None = None) -> object | None:
    """Return the response that refuses a whole request, or ``None`` if the response of this version has no error code.

    ``text`` is left out if the response has no error message.
    """
    fields = {field.name for field in fields_of(api.response_class) if field.exists_in(version)}
    if "error_code" not in fields:
        return None
    texts = {"error_message": text} if text is not None and "error_message" in fields else {}
    response: object = api.response_class(error_code=int(code), **texts)
    return response
