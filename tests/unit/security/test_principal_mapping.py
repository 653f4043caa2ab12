"""``ssl.principal.mapping.rules``: Kafka's syntax, and Kafka's documented examples."""

from __future__ import annotations

import pytest

from semel.security.principal_mapping import PrincipalMapping

DOCUMENTED = ", ".join(
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    )
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_documented_examples_have_the_documented_names(subject: str, name: str) -> None:
    assert PrincipalMapping(DOCUMENTED).name(subject) == name


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(.*$/$1/",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"is not DEFAULT|is no pattern"):
        PrincipalMapping(rules)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", None),
        (",   , , DEFAULT,,", "CN=a", "CN=a"),
        ("RULE:CN=a/b/", "CN=aa", None),  # The whole subject has to match.
        ("RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/", "CN=x,O=y", "x"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz", r"Tkac\, Adam"),
        (r"RULE:CN=(.*)/a\/$1/", "CN=b", "a/b"),
        ("RULE:CN=(.*)/$8 owed by $1/", "CN=b", "$8 owed by b"),
        ("RULE:CN=(a)?(.*)/$1$2/", "CN=b", "b"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, subject: str, name: str | None) -> None:
    assert PrincipalMapping(rules).name(subject) == name
