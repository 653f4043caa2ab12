"""The rights that the APIs about the cluster need: its brokers, settings, ACLs, users and quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.requests.access.declarations import Access, CheckedByHandler, Items, Need, item_name, the_cluster
from semel.errors import ErrorCode
from semel.metadata.image import ClusterImage
from semel.security.acls import CLUSTER_NAME
from semel.security.rights import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_CLUSTER,
    ALTER_CONFIGS_GROUP,
    ALTER_CONFIGS_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_CLUSTER,
    DESCRIBE_CONFIGS_GROUP,
    DESCRIBE_CONFIGS_TOPIC,
    Right,
    Rights,
)
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryDataResponse,
)
from semel.wire.messages.alter_configs import AlterConfigsResourceResponse
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from semel.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from semel.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from semel.wire.messages.describe_configs import DescribeConfigsResult
from semel.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_NOT_ALLOWED: Final = "the client is not authorized"

_ALTERS: Final = Need(ALTER_CLUSTER, the_cluster)
_DESCRIBES: Final = Need(DESCRIBE_CLUSTER, the_cluster)

NO_RIGHTS_NEEDED: Final = Access()
"""The access of APIs that need no right."""

DESCRIBE_CLUSTER_: Final = Access(
    checked_by_handler=(CheckedByHandler(DESCRIBE_CLUSTER, "no operation with the cluster is told to be authorized"),)
)
DESCRIBE_LOG_DIRS: Final = Access(whole=(_DESCRIBES,))


def _elect_leaders(request: Request, message: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic.topic, [PartitionResult(index, code, _NOT_ALLOWED) for index in topic.partitions]
            )
            for topic in message.topic_partitions or ()
        ],
    )


ELECT_LEADERS: Final = Access(whole=(_ALTERS,), refuse=_elect_leaders)

ALTER_PARTITION_REASSIGNMENTS: Final = Access(whole=(_ALTERS,))
LIST_PARTITION_REASSIGNMENTS: Final = Access(whole=(_DESCRIBES,))
UPDATE_FEATURES: Final = Access(whole=(_ALTERS,))

# Settings

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32


_OF_CLUSTER: Final = (_BROKER, _BROKER_LOGGER, _CLIENT_METRICS)


def _settings(
    answered: str,
    topic: Right,
    group: Right,
    cluster: Right,
    refused: Callable[[ErrorCode, str, int, str], object],
    *,
    of_cluster: tuple[int, ...] = _OF_CLUSTER,
) -> Items:
    """Return items of which each needs a right by its resource type. The handler refuses other types."""
    of_types = dict.fromkeys(of_cluster, cluster) | {_TOPIC: topic, _GROUP: group}

    def check(rights: Rights, image: ClusterImage, message: Any, resource: Any) -> object | None:
        right = of_types.get(resource.resource_type)
        if right is None or rights.demand(right, CLUSTER_NAME if right is cluster else resource.resource_name):
            return None
        return refused(right.refusal, _NOT_ALLOWED, resource.resource_type, resource.resource_name)

    needs = (Need(topic, item_name), Need(group, item_name), Need(cluster, item_name))
    return Items("resources", answered, needs, check)


DESCRIBE_CONFIGS: Final = Access(
    items=_settings(
        "results", DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP, DESCRIBE_CONFIGS_CLUSTER, DescribeConfigsResult
    )
)

LIST_CONFIG_RESOURCES: Final = Access(whole=(Need(DESCRIBE_CONFIGS_CLUSTER, the_cluster),))

_ALTERED: Final = (ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP, ALTER_CONFIGS_CLUSTER, AlterConfigsResourceResponse)

INCREMENTAL_ALTER_CONFIGS: Final = Access(items=_settings("responses", *_ALTERED))
ALTER_CONFIGS: Final = Access(items=_settings("responses", *_ALTERED, of_cluster=(_BROKER, _CLIENT_METRICS)))
"""Without loggers, which AlterConfigs cannot alter: the handler refuses them, whatever rights the client has."""

# ACLs, users and quotas

DESCRIBE_ACLS: Final = Access(whole=(_DESCRIBES,))


def _create_acls(request: Request, message: CreateAclsRequest, code: ErrorCode) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code, _NOT_ALLOWED) for _ in message.creations])


CREATE_ACLS: Final = Access(whole=(_ALTERS,), refuse=_create_acls)


def _delete_acls(request: Request, message: DeleteAclsRequest, code: ErrorCode) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code, _NOT_ALLOWED) for _ in message.filters])


DELETE_ACLS: Final = Access(whole=(_ALTERS,), refuse=_delete_acls)

DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Access(whole=(_DESCRIBES,))


def _alter_users(
    request: Request, message: AlterUserScramCredentialsRequest, code: ErrorCode
) -> AlterUserScramCredentialsResponse:
    deleted, upserted = (asked.name for asked in message.deletions), (asked.name for asked in message.upsertions)
    users = dict.fromkeys((*deleted, *upserted))
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user, code, _NOT_ALLOWED) for user in users]
    )


ALTER_USER_SCRAM_CREDENTIALS: Final = Access(whole=(_ALTERS,), refuse=_alter_users)

DESCRIBE_CLIENT_QUOTAS: Final = Access(whole=(Need(DESCRIBE_CONFIGS_CLUSTER, the_cluster),))


def _alter_quotas(request: Request, message: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[EntryDataResponse(code, _NOT_ALLOWED, entry.entity) for entry in message.entries]
    )


ALTER_CLIENT_QUOTAS: Final = Access(whole=(Need(ALTER_CONFIGS_CLUSTER, the_cluster),), refuse=_alter_quotas)
