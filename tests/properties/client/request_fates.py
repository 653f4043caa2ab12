"""What can become of a request that a machine under test has sent, whatever the property is about."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.unit.client.machine.machine_bench import Bench, Request
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import Producing


def oldest_of_a_connection(data: st.DataObject, requests: Sequence[Request]) -> Request | None:
    """A request that its broker may serve next: the oldest of some connection."""
    heads = list({request.connection: request for request in reversed(requests)}.values())
    return heads[data.draw(st.integers(0, len(heads) - 1))] if heads else None


def meanwhile(what: str, data: st.DataObject, producer: Producing, late: list[Request]) -> None:
    """Time passes, or one of the requests that were lost for their sender arrives after all."""
    match what:
        case "time":
            producer.advance(data.draw(st.sampled_from((1, 50, 200, 1_000, 2_500))))
        case "late":
            if late:
                producer.cluster.answer(late.pop(data.draw(st.integers(0, len(late) - 1))))
        case _:
            raise AssertionError(what)


def meets(fate: str, request: Request, bench: Bench, cluster: ModelCluster) -> None:
    match fate:
        case "answer":
            bench.answer(request)
        case "answer lost":
            cluster.answer(request)
            bench.drop_connection(request.connection)
        case "lost":
            bench.drop_connection(request.connection)
        case _:
            raise AssertionError(fate)
