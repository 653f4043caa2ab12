"""The answer that refuses a whole request, for the APIs that have an error code for it."""

from __future__ import annotations

from semel.errors import ErrorCode
from semel.wire.apis import Api
from semel.wire.schema import fields_of


def whole_refusal(api: Api, version: int, code: ErrorCode, text: str | None = None) -> object | None:
    """``None`` if this version has no such code. ``text`` is left out where there is no place for it."""
    fields = {field.name for field in fields_of(api.response_class) if field.exists_in(version)}
    if "error_code" not in fields:
        return None
    texts = {"error_message": text} if text is not None and "error_message" in fields else {}
    response: object = api.response_class(error_code=int(code), **texts)
    return response
