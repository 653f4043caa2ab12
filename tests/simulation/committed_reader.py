"""What a read_committed consumer sees of a partition, read over the wire and filtered as clients do it."""

from __future__ import annotations

from semel.errors import DecodeError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.records import iterate_headers, iterate_records, verify_crc
from tests.simulation.wire_client import WireClient

READ_COMMITTED = 1


async def read_committed(client: WireClient, partition: TopicPartition) -> list[bytes | None]:
    """All values from the start on. Asserts that nothing is left undecided. Raises DecodeError at a damaged batch."""
    offset = 0
    found: list[bytes | None] = []
    aborting: set[int] = set()
    while True:
        target = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=10_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=partition.topic, partitions=[target])],
        )
        answer = (await client.call(ApiKey.FETCH, 11, request)).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        batches = list(iterate_headers(answer.records or b"", allow_partial_tail=True))
        if not batches:
            assert answer.last_stable_offset == answer.high_watermark, f"{partition}: a transaction is open"
            return found
        begins = {(aborted.producer_id, aborted.first_offset) for aborted in answer.aborted_transactions or ()}
        for position, header in batches:
            if not verify_crc(answer.records, position, header):
                raise DecodeError(f"the batch at {header.base_offset} fails its checksum")
            offset = header.next_offset
            for producer_id, first_offset in begins:
                if producer_id == header.producer_id and first_offset <= header.last_offset:
                    aborting.add(producer_id)
            if header.is_control:
                marker = parse_marker(answer.records, position)
                if marker is not None and not marker.committed:
                    aborting.discard(header.producer_id)
                    begins = {(pid, first) for pid, first in begins if pid != header.producer_id or first >= offset}
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [record.value for record in iterate_records(answer.records, position)]
