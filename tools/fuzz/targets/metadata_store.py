"""Targets for values of the metadata store: topics, brokers, features, ACLs, users and quotas.

An input for ACLs, users and quotas is a path and a value, with a newline in between.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final
from uuid import UUID

from semel.errors import DecodeError
from semel.metadata import paths
from semel.metadata.image import Broker, Endpoint, PartitionState, Topic
from semel.metadata.security.image import AclsAltered, QuotasAltered, SecurityChange, UserAltered, UserSecretMade
from semel.metadata.security.paths import decode_security, encode_security, security_path
from semel.security.acls import AclRule, ResourcePattern
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType, ScramMechanism
from tools.fuzz.target import Target

_ROUNDS: Final = 12
_NAMES: Final = ("a", "User:*", "*", ".", "%2E", "é,=/", "x" * 100)
_FOLDERS: Final = (paths.ACLS, paths.USERS, paths.QUOTAS)


def targets() -> list[Target]:
    return [
        Target("topic of the store", _topic, _checked(lambda data: paths.decode_topic("t", data)), rounds=_ROUNDS),
        Target("broker of the store", _broker, _checked(lambda data: paths.decode_broker(1, data, 7)), rounds=_ROUNDS),
        Target("controller of the store", _controller, _checked(paths.decode_controller), rounds=_ROUNDS // 2),
        Target("features of the store", _features, _checked(paths.decode_features), rounds=_ROUNDS // 2),
        Target(
            "configs of the store", _configs, _checked(lambda data: paths.decode_configs("/c", data)), rounds=_ROUNDS
        ),
        Target("ACLs, users and quotas of the store", _security, _check_security, rounds=3 * _ROUNDS),
    ]


def _checked(decode: Callable[[bytes], Any]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        decode(data)

    return check


def _topic(random: Random) -> bytes:
    partitions = tuple(
        PartitionState(random.choice((None, 1)), 2, (1, 2), (1,), random.randrange(5))
        for _ in range(random.randrange(4))
    )
    configs = {"retention.ms": "1"} if random.random() < 0.5 else {}
    return paths.encode_topic(Topic("t", UUID(int=random.getrandbits(128)), partitions, configs))


def _broker(random: Random) -> bytes:
    endpoint = random.choice((None, Endpoint("h", 9093)))
    return paths.encode_broker(Broker(1, "host", 9092, None, epoch=3, inter_broker=endpoint, directory_id="d"))


def _controller(random: Random) -> bytes:
    return paths.encode_controller(random.randrange(9))


def _features(random: Random) -> bytes:
    return paths.encode_features({"transaction.version": random.randrange(3), "group.version": 1})


def _configs(random: Random) -> bytes:
    return paths.encode_configs({random.choice(_NAMES): random.choice(_NAMES) for _ in range(random.randrange(4))})


def _security(random: Random) -> bytes:
    change = _change(random)
    return security_path(change).encode() + b"\n" + (encode_security(change) or b"")


def _change(random: Random) -> SecurityChange:
    name = random.choice(_NAMES)
    match random.randrange(4):
        case 0:
            pattern = ResourcePattern(random.choice(list(AclResourceType)), random.choice(list(AclPatternType)), name)
            rules = frozenset(
                AclRule(
                    random.choice(_NAMES), "*", random.choice(list(AclOperation)), random.choice(list(AclPermission))
                )
                for _ in range(random.randrange(4))
            )
            return AclsAltered(pattern, rules)
        case 1:
            credential = ScramCredential(random.randbytes(8), random.randbytes(32), random.randbytes(32), 4096)
            return UserAltered(name, {ScramMechanism.SCRAM_SHA_256: credential} if random.random() < 0.8 else {})
        case 2:
            return UserSecretMade(random.choice((None, random.randbytes(16))))
        case _:
            user = random.choice((name, Quoted.DEFAULT))
            entity = QuotaEntity(user=user, client_id=random.choice((None, name, Quoted.DEFAULT)))
            return QuotasAltered(entity, {"producer_byte_rate": random.random() * 1e6})


def _check_security(data: bytes) -> None:
    path, _, value = data.partition(b"\n")
    name = path.decode(errors="replace")
    if name.rpartition("/")[0] not in _FOLDERS:
        raise DecodeError("the store is asked for these three folders only")
    change = decode_security(name, value or None)
    path_again, value_again = security_path(change), encode_security(change)
    again = decode_security(path_again, value_again)
    # Encoded bytes are compared, because a quota of NaN is not equal to itself.
    assert (security_path(again), encode_security(again)) == (path_again, value_again), f"{change} became {again}"
