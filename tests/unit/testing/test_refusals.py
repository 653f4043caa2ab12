"""The answers that refuse: every item that was asked for gets the code, under the name it was asked by."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.errors import ErrorCode
from semel.testing.refusals import can_be_refused, refusal
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

CODE = ErrorCode.NOT_COORDINATOR
TOPIC_ID = UUID(int=7)


@pytest.mark.parametrize(
    ("key", "request_", "response"),
    [
        pytest.param(
            ApiKey.LIST_OFFSETS,
            ListOffsetsRequest(
                topics=[
                    ListOffsetsTopic("a", [ListOffsetsPartition(0, timestamp=5), ListOffsetsPartition(3, timestamp=5)]),
                    ListOffsetsTopic("b", [ListOffsetsPartition(1, timestamp=5)]),
                ]
            ),
            ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        "a", [ListOffsetsPartitionResponse(0, CODE), ListOffsetsPartitionResponse(3, CODE)]
                    ),
                    ListOffsetsTopicResponse("b", [ListOffsetsPartitionResponse(1, CODE)]),
                ]
            ),
            id="ListOffsets",
        ),
        pytest.param(
            ApiKey.OFFSET_COMMIT,
            OffsetCommitRequest(
                topics=[
                    OffsetCommitRequestTopic(
                        name="a", topic_id=TOPIC_ID, partitions=[OffsetCommitRequestPartition(2, committed_offset=9)]
                    )
                ]
            ),
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(
                        name="a", topic_id=TOPIC_ID, partitions=[OffsetCommitResponsePartition(2, CODE)]
                    )
                ]
            ),
            id="OffsetCommit",
        ),
        pytest.param(
            ApiKey.TXN_OFFSET_COMMIT,
            TxnOffsetCommitRequest(
                topics=[TxnOffsetCommitRequestTopic("a", [TxnOffsetCommitRequestPartition(2, committed_offset=9)])]
            ),
            TxnOffsetCommitResponse(
                topics=[TxnOffsetCommitResponseTopic("a", [TxnOffsetCommitResponsePartition(2, CODE)])]
            ),
            id="TxnOffsetCommit",
        ),
        pytest.param(ApiKey.HEARTBEAT, HeartbeatRequest(), HeartbeatResponse(error_code=CODE), id="a whole request"),
    ],
)
def test_all_that_was_asked_for_is_refused(key: ApiKey, request_: object, response: object) -> None:
    api = APIS[key]
    assert can_be_refused(api)
    assert refusal(api, api.max_version, request_, CODE) == response


def test_an_api_without_a_place_for_a_code_cannot_be_refused() -> None:
    api = APIS[ApiKey.DESCRIBE_GROUPS]
    assert not can_be_refused(api)
    with pytest.raises(ValueError, match="DescribeGroups version 0 has no place for an error code"):
        refusal(api, 0, api.request_class(), CODE)
