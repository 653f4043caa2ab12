"""The types of the arguments and results of ``semel.Admin``.

from semel.admin import AclBinding, ConfigResource, NewTopic, OffsetSpec, QuotaEntity
"""

from __future__ import annotations

from semel.client.admin.admin import Admin
from semel.client.admin.batches import RawBatches
from semel.client.admin.cluster import BrokerDescription, ClusterDescription, Features, LogDir, ReplicaSize
from semel.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType
from semel.client.admin.group_descriptions import GroupDescription, GroupMember
from semel.client.admin.groups import GroupListing
from semel.client.admin.hanging import HangingTransaction
from semel.client.admin.partitions import ListedOffset, OffsetSpec, ProducerState
from semel.client.admin.results import Results
from semel.client.admin.topics import CreatedTopic, NewTopic, PartitionDescription, TopicDescription, TopicListing
from semel.client.admin.transactions import TransactionDescription, TransactionListing
from semel.security.acls import AclBinding, AclFilter
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.wire.codes import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    ConfigSource,
    ScramMechanism,
)

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "Admin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "CreatedTopic",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HangingTransaction",
    "ListedOffset",
    "LogDir",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "ProducerState",
    "QuotaEntity",
    "Quoted",
    "RawBatches",
    "ReplicaSize",
    "Results",
    "ScramMechanism",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
]
