from __future__ import annotations

from semel.broker.metrics.metrics import Histogram
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.request import Request
from semel.wire.apis import APIS, ApiKey
from semel.wire.encoding import SLICE_ELEMENTS
from semel.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from tests.unit.broker.network.connection_bench import Bench

KEY = b"the request"


def cacheable(bench: Bench, cache: AnswerCache) -> Request:
    request = Request(bench.connection, APIS[ApiKey.METADATA], 12, 1, None, Histogram())
    request.in_slices = True
    request.cache_key = KEY
    request.cacheable(cache)
    return request


def large() -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponseTopic(name=str(number)) for number in range(2 * SLICE_ELEMENTS)])


def test_a_large_answer_is_kept_when_it_is_encoded() -> None:
    bench, cache = Bench(), AnswerCache()
    cacheable(bench, cache).answer(large())

    bench.wait(1)

    assert cache.get(KEY) == bench.sent


def test_an_answer_that_was_being_encoded_when_the_cluster_changed_is_not_kept() -> None:
    """Otherwise all clients get it until the next change: a leader that has moved is not found."""
    bench, cache = Bench(), AnswerCache()
    cacheable(bench, cache).answer(large())

    cache.clear()
    bench.wait(1)

    assert bench.sent
    assert cache.get(KEY) is None


def test_an_answer_that_was_being_made_when_the_cluster_changed_is_not_kept() -> None:
    bench, cache = Bench(), AnswerCache()
    request = cacheable(bench, cache)

    cache.clear()
    request.answer(MetadataResponse())

    assert cache.get(KEY) is None
