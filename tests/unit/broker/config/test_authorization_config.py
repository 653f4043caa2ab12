from __future__ import annotations

import pytest

from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.broker.config.broker_config import BrokerConfig
from semel.settings import SettingError


def test_without_settings_nothing_is_decided_by_acls() -> None:
    config = BrokerConfig.load()
    assert (config.authorizer_class_name, config.super_users, config.allow_everyone_if_no_acl_found) == ("", (), False)


def test_the_settings_are_those_of_kafka_s_authorizer() -> None:
    config = BrokerConfig.load(
        f"authorizer.class.name={STANDARD_AUTHORIZER}\n"
        "super.users=User:admin; User:CN=broker,OU=ops ;\n"
        "allow.everyone.if.no.acl.found=true\n"
    )
    assert config.authorizer_class_name == STANDARD_AUTHORIZER
    assert config.super_users == ("User:admin", "User:CN=broker,OU=ops")
    assert config.allow_everyone_if_no_acl_found


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("authorizer.class.name", "com.example.Mine", f"empty, or {STANDARD_AUTHORIZER}: Semel loads no classes"),
        ("super.users", "admin", "principals with ; between them"),
        ("super.users", "User:admin;User:", "principals with ; between them"),
    ],
)
def test_what_is_refused_names_the_value_and_the_rule(name: str, value: str, rule: str) -> None:
    with pytest.raises(
        SettingError, match=f"^Invalid value {value} for configuration {name}: the value must be {rule}"
    ):
        BrokerConfig.load(overrides={name: value})
