"""The table of requests agrees with the declarations, with an independent library, and with what clients rely on."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import semel.wire.messages
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.schema import Versions, versions_of

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@every_api
def test_both_messages_declare_the_versions_of_the_table(api: Api) -> None:
    table = Versions(api.min_version, api.max_version, api.flexible_since)
    assert versions_of(api.request_class) == table
    assert versions_of(api.response_class) == table


@every_api
def test_kio_knows_the_same_key_the_same_range_and_the_same_flexible_versions(api: Api) -> None:
    name = f"kio.schema.{api.key.name.lower()}"
    package = importlib.import_module(name)
    known = sorted(int(module.name[1:]) for module in pkgutil.iter_modules(package.__path__))
    if api.key is ApiKey.INIT_PRODUCER_ID:
        known.remove(6)  # unstable in Kafka 4.3
    assert known == list(range(api.min_version, api.max_version + 1))
    for version in known:
        request = getattr(importlib.import_module(f"{name}.v{version}.request"), f"{api.name}Request")
        assert (request.__api_key__, request.__flexible__) == (api.key, api.flexible_in(version))


def test_every_message_module_belongs_to_an_api() -> None:
    modules = {module.name for module in pkgutil.iter_modules(semel.wire.messages.__path__)}
    among_consumers = {"consumer_protocol"}  # Bytes within JoinGroup and SyncGroup, of no API.
    assert modules == {api.key.name.lower() for api in APIS.values()} | among_consumers


def test_produce_is_advertised_from_version_zero_so_that_librdkafka_goes_on_compressing() -> None:
    produce = APIS[ApiKey.PRODUCE]
    assert (produce.advertised_min_version, produce.min_version) == (0, 3)
    assert all(api.advertised_min_version == api.min_version for api in APIS.values() if api is not produce)


def test_record_batches_of_format_2_are_within_the_ranges_that_older_librdkafka_looks_for() -> None:
    assert APIS[ApiKey.PRODUCE].min_version == 3
    assert APIS[ApiKey.FETCH].min_version == 4


def test_importing_the_wire_imports_no_message_and_compiles_nothing() -> None:
    program = """
import sys
import semel.wire.apis, semel.wire.codec, semel.wire.framing
print([name for name in sys.modules if name.startswith("semel.wire.messages")])
print(len(semel.wire.codec._encoders) + len(semel.wire.codec._decoders))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n0\n"
