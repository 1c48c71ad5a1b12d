"""Kafka's rules from the subject of a certificate to a user (KIP-371); the examples are those of Kafka's own tests."""

from __future__ import annotations

import re

import pytest

from kafka_sidecar.proxy.config.principal_rules import PATTERN, RulesError, parse_rules, principal_of

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
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
def test_the_first_rule_that_fits_the_whole_subject_applies(subject: str, name: str) -> None:
    assert principal_of(subject, parse_rules(KAFKAS)) == f"User:{name}"


def test_a_client_whom_no_rule_fits_has_no_name() -> None:
    assert principal_of("CN=a", parse_rules("RULE:^CN=b$/b/")) is None


def test_a_pattern_may_contain_an_escaped_slash_and_a_comma() -> None:
    rules = parse_rules(r"RULE:^CN=(.*)\\, x$/$1/, RULE:a\/b/c/")
    assert principal_of(r"CN=one\, x", rules) == "User:one"
    assert principal_of("a/b", rules) == "User:c"


@pytest.mark.parametrize(
    "text",
    ["", "RULE", "default", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/L RULE:c/d/", "RULE:(/b/", "RULE:(a)/$2/", "DEFAULT,"],
)
def test_other_texts_are_rejected_with_what_to_write(text: str) -> None:
    with pytest.raises(RulesError, match=r"write rules|cannot be used|refers to group"):
        parse_rules(text)


def test_the_pattern_of_the_schema_is_that_of_the_program() -> None:
    assert re.fullmatch(PATTERN, KAFKAS)
