"""The settings of the clients as keywords, for type checkers: ``Producer(ack=1)`` is found before it is run.

A value may be a Python value or text; ``None`` means: not set. The declarations beside this file are what counts, and
``tests/unit/client/config/test_keywords.py`` compares both. Nothing is imported from here at run time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Required, TypeAlias, TypedDict

Number: TypeAlias = int | str
Flag: TypeAlias = bool | str
Names: TypeAlias = str | list[str] | tuple[str, ...]


class ClientSettings(TypedDict, total=False):
    """The settings that all clients share."""

    bootstrap_servers: Required[Names]
    client_id: str | None
    request_timeout_ms: Number | None
    retry_backoff_ms: Number | None
    retry_backoff_max_ms: Number | None
    reconnect_backoff_ms: Number | None
    reconnect_backoff_max_ms: Number | None
    socket_connection_setup_timeout_ms: Number | None
    socket_connection_setup_timeout_max_ms: Number | None
    connections_max_idle_ms: Number | None
    metadata_max_age_ms: Number | None
    metadata_recovery_rebootstrap_trigger_ms: Number | None
    security_protocol: str | None
    sasl_mechanism: str | None
    sasl_jaas_config: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_token_endpoint_allow_http: Flag | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: Flag | None
    sasl_login_callback_handler_class: str | None
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_login_connect_timeout_ms: Number | None
    sasl_login_read_timeout_ms: Number | None
    sasl_login_retry_backoff_ms: Number | None
    sasl_login_retry_backoff_max_ms: Number | None
    ssl_truststore_type: str | None
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_type: str | None
    ssl_keystore_location: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str | None
    sasl_oauthbearer_token_provider: Callable[[], str | Awaitable[str]] | None


class ProducerSettings(ClientSettings, total=False):
    """The settings of a producer."""

    acks: Number | None
    enable_idempotence: Flag | None
    transactional_id: str | None
    transaction_timeout_ms: Number | None
    delivery_timeout_ms: Number | None
    retries: Number | None
    max_block_ms: Number | None
    batch_size: Number | None
    linger_ms: Number | None
    buffer_memory: Number | None
    max_request_size: Number | None
    max_in_flight_requests_per_connection: Number | None
    compression_type: str | None
    compression_gzip_level: Number | None
    compression_lz4_level: Number | None
    compression_zstd_level: Number | None
    partitioner_ignore_keys: Flag | None
    metadata_max_idle_ms: Number | None


class ConsumerSettings(ClientSettings, total=False):
    """The settings of a consumer."""

    isolation_level: str | None
    auto_offset_reset: str | None
    fetch_min_bytes: Number | None
    fetch_max_wait_ms: Number | None
    fetch_max_bytes: Number | None
    max_partition_fetch_bytes: Number | None
    max_poll_records: Number | None
    check_crcs: Flag | None
    default_api_timeout_ms: Number | None
    allow_auto_create_topics: Flag | None
    client_rack: str | None
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: Names | None
    session_timeout_ms: Number | None
    heartbeat_interval_ms: Number | None
    max_poll_interval_ms: Number | None
    enable_auto_commit: Flag | None
    auto_commit_interval_ms: Number | None
    exclude_internal_topics: Flag | None


class AdminSettings(ClientSettings, total=False):
    """The settings of an admin client."""

    default_api_timeout_ms: Number | None
