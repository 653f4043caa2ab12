"""One table: every error code, its family, and the exception a caller sees."""

from __future__ import annotations

import pytest

from semel.errors import (
    FAMILIES,
    AbortableError,
    AuthorizationFailed,
    ErrorCode,
    Family,
    FatalError,
    KafkaError,
    ProducerFenced,
    RetriableError,
    TimedOut,
    UnsupportedVersion,
    client_error,
    family_of,
)

TYPES = {Family.RETRIABLE: RetriableError, Family.ABORTABLE: AbortableError, Family.FATAL: FatalError}


def test_every_code_has_one_family() -> None:
    assert set(FAMILIES) == set(ErrorCode) - {ErrorCode.NONE}


@pytest.mark.parametrize("code", sorted(FAMILIES))
def test_the_type_of_an_exception_is_its_family_and_its_text_says_what_to_do(code: ErrorCode) -> None:
    error = client_error(code, "something happened")
    assert isinstance(error, TYPES[FAMILIES[code]])
    assert isinstance(error, KafkaError)
    assert error.code is code
    text = str(error)
    assert text.startswith(f"{code.name}: something happened. ")
    assert any(advice in text.lower() for advice in ("try again", "abort", "close", "raise", "lower"))


@pytest.mark.parametrize(
    ("code", "family"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Family.RETRIABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Family.RETRIABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Family.RETRIABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, Family.ABORTABLE),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Family.ABORTABLE),
        (ErrorCode.ILLEGAL_GENERATION, Family.ABORTABLE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Family.ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, Family.FATAL),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, Family.FATAL),
        (ErrorCode.UNSUPPORTED_VERSION, Family.FATAL),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Family.FATAL),
    ],
)
def test_the_codes_that_matter_most(code: ErrorCode, family: Family) -> None:
    assert family_of(code) is family


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, AuthorizationFailed),
        (ErrorCode.UNSUPPORTED_VERSION, UnsupportedVersion),
        (ErrorCode.REQUEST_TIMED_OUT, TimedOut),
    ],
)
def test_some_have_a_name_of_their_own(code: ErrorCode, kind: type[KafkaError]) -> None:
    assert type(client_error(code, "x")) is kind


def test_a_code_that_is_newer_than_the_table_is_an_unknown_server_error() -> None:
    error = client_error(9_999, "x")
    assert (type(error), error.code) == (RetriableError, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_request_may_give_a_code_a_family_of_its_own() -> None:
    assert isinstance(client_error(ErrorCode.INVALID_TXN_STATE, "x", Family.ABORTABLE), AbortableError)
