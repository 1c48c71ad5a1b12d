"""The policy string of a topic: its rules, and the errors of an invalid one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.policies.builtin.require_header import RequireHeader
from kafka_sidecar.policies.catalog import (
    MAX_CACHED_PLANS,
    MAX_RULES_PER_TOPIC,
    PolicyCatalog,
    PolicySettings,
    parse_items,
)
from kafka_sidecar.policies.contract import Hints, RecordValidationPolicy, TopicMetadata
from kafka_sidecar.policies.registry import POLICIES

HERE = f"{__name__}:"
LONG = 500_000


class Remembering(RecordValidationPolicy):
    """Records its settings and arguments."""

    opened: list[Remembering]

    def __init__(self) -> None:
        self.configs: Mapping[str, Any] = {}
        self.closed = 0

    def configure(self, configs: Mapping[str, Any]) -> None:
        if "wrong" in configs:
            raise ValueError("wrong: is not a setting")
        self.configs = configs

    def hints(self) -> Hints:
        return Hints(access_headers=True)

    def check(self, text: str) -> None:
        if text == "nonsense":
            raise ValueError("nonsense means nothing")
        if text == "bug":
            raise KeyError(text)

    def validate(self, topic: TopicMetadata, record: Any) -> None:
        """Accept every record."""

    def close(self) -> None:
        self.closed += 1


class FailsToStart(Remembering):
    def configure(self, configs: Mapping[str, Any]) -> None:
        raise KeyError("license")


class LeavesAtStart(Remembering):
    def configure(self, configs: Mapping[str, Any]) -> None:
        raise SystemExit("no license")


class HintsAtNothing(Remembering):
    def hints(self) -> Any:
        return None


class Closed(RecordValidationPolicy):
    """Validates nothing."""


class Waits(Remembering):
    async def validate(self, topic: TopicMetadata, record: Any) -> None:  # type: ignore[override]
        """Never awaited."""


class WaitsForBatches(Remembering):
    async def validate_batch(self, topic: TopicMetadata, records: Any) -> list[Any]:
        return []


class Misspells(Remembering):
    def validate_bach(self, topic: TopicMetadata, records: Any) -> list[Any]:
        return []


class HintsBelowNothing(Remembering):
    def hints(self) -> Hints:
        return Hints(access_key_bytes=-2)


class FailsToEnd(Remembering):
    def close(self) -> None:
        raise OSError("lock")


class NoPolicy:
    pass


@pytest.fixture(autouse=True)
def _this_module_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _module())


def _module() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(**globals())


def remembering(**values: Any) -> PolicySettings:
    return PolicySettings(f"{HERE}Remembering", **values)


def named(catalog: PolicyCatalog, text: str) -> list[tuple[str, str]]:
    return [(rule.name, rule.text) for rule in catalog.plan(text).rules]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("json", [("json", "")]),
        (" json ", [("json", "")]),
        ("json,", [("json", "")]),
        ("json:", [("json", "")]),
        ("a, b:c ,d-e:f g", [("a", ""), ("b", "c"), ("d-e", "f g")]),
        ("require_header:x:y", [("require_header", "x:y")]),
        ('cel:"a, b", json', [("cel", "a, b"), ("json", "")]),
        ('cel:"say ""hi"", now"', [("cel", 'say "hi", now')]),
        ('cel:" a "', [("cel", " a ")]),
    ],
)
def test_a_policy_string_is_a_list_of_names_with_arguments(text: str, expected: list[tuple[str, str]]) -> None:
    assert list(parse_items(text)) == expected


@pytest.mark.parametrize("text", ["", " ", ",", "a,,b", "a b", 'a:"b', 'a:"b"c', "os.path:join", "a;b", ":x"])
def test_an_invalid_policy_string_is_rejected_with_the_syntax(text: str) -> None:
    with pytest.raises(ValueError, match="write name or name:argument"):
        list(parse_items(text))


def test_rules_are_in_the_order_of_the_string_with_their_own_arguments() -> None:
    catalog = PolicyCatalog({"orders": remembering()})
    assert named(catalog, "orders, require_header:trace-id, orders:x") == [
        ("orders", ""),
        ("require_header", "trace-id"),
        ("orders", "x"),
    ]


def test_a_policy_is_configured_once_with_its_settings_and_failure_mode() -> None:
    catalog = PolicyCatalog({"orders": remembering(fail_open=True, settings={"depth": 3})})
    one, other = catalog.plan("orders, orders:x").rules
    assert one.policy is other.policy
    assert isinstance(one.policy, Remembering)
    assert one.policy.configs == {"depth": 3}
    assert one.fail_open
    assert one.hints == Hints(access_headers=True)


def test_a_built_in_policy_needs_no_configuration() -> None:
    (rule,) = PolicyCatalog({}).plan("require_header:trace-id").rules
    assert isinstance(rule.policy, RequireHeader)
    assert not rule.fail_open


def test_a_configured_policy_can_have_the_name_of_a_built_in_one() -> None:
    (rule,) = PolicyCatalog({"require_header": remembering()}).plan("require_header:x").rules
    assert isinstance(rule.policy, Remembering)


def test_a_facade_gets_the_whole_policy_string() -> None:
    catalog = PolicyCatalog({}, remembering(settings={"a": 1}))
    assert named(catalog, "anything, at: all") == [("Remembering", "anything, at: all")]


def test_equal_strings_share_a_plan_and_the_cache_of_plans_is_bounded() -> None:
    catalog = PolicyCatalog({"p": remembering()})
    first = catalog.plan("p:first")
    assert catalog.plan("p:first") is first
    for number in range(MAX_CACHED_PLANS):
        catalog.plan(f"p:{number}")
    assert catalog.plan("p:first") is not first


def test_an_unknown_policy_name_is_rejected_with_the_known_names() -> None:
    with pytest.raises(ValueError, match=r"unknown policy 'nope'.*under policies:.*orders.*require_header"):
        PolicyCatalog({"orders": remembering()}).plan("nope")


def test_an_invalid_argument_is_rejected_with_the_name_of_the_policy() -> None:
    with pytest.raises(ValueError, match="policy orders: nonsense means nothing"):
        PolicyCatalog({"orders": remembering()}).plan("orders:nonsense")


def test_the_policy_string_of_a_topic_cannot_name_a_class() -> None:
    with pytest.raises(ValueError, match="unknown policy 'os'"):
        PolicyCatalog({}).plan("os:system")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (remembering(settings={"wrong": 1}), "policy p: wrong: is not a setting"),
        (PolicySettings("missing"), "policy p: unknown policy 'missing'"),
        (PolicySettings(f"{HERE}LeavesAtStart"), "policy p: .*LeavesAtStart failed to start: SystemExit: no license"),
        (PolicySettings(f"{HERE}FailsToStart"), "policy p: .*FailsToStart failed to start: KeyError"),
        (PolicySettings(f"{HERE}HintsAtNothing"), r"policy p: .*HintsAtNothing: hints\(\) did not return Hints"),
        (PolicySettings(f"{HERE}HintsBelowNothing"), r"policy p: .*: hints\(\) returned a negative number"),
        (PolicySettings(f"{HERE}Closed"), r"policy p: .*Closed: has no validate\(\)"),
        (PolicySettings(f"{HERE}Waits"), r"policy p: .*Waits .*: validate\(\) is async: hooks are not awaited"),
        (PolicySettings(f"{HERE}WaitsForBatches"), r"policy p: .*: validate_batch\(\) is async: hooks are not awaited"),
        (PolicySettings(f"{HERE}Misspells"), r"validate_bach\(\) is not a hook: did you mean validate_batch\(\)\?"),
        (PolicySettings(f"{HERE}NoPolicy"), "policy p: .*NoPolicy.*is not a subclass"),
    ],
)
def test_an_invalid_policy_is_reported_when_the_catalog_is_created(setting: PolicySettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyCatalog({"p": setting})


def test_an_exception_in_the_check_of_an_argument_rejects_the_argument() -> None:
    with pytest.raises(ValueError, match="policy p: check\\(\\) failed: KeyError: 'bug'"):
        PolicyCatalog({"p": remembering()}).plan("p:bug")


def test_closing_closes_each_policy_once() -> None:
    catalog = PolicyCatalog({"p": remembering()}, remembering())
    catalog.plan("whatever")
    policies = [member.policy for member in [*catalog._policies.values(), catalog._facade] if member]
    catalog.close()
    assert [policy.closed for policy in policies if isinstance(policy, Remembering)] == [1, 1]


def test_a_policy_that_fails_to_close_is_reported_and_the_others_are_closed() -> None:
    reported: list[str] = []
    settings = {"bad": PolicySettings(f"{HERE}FailsToEnd"), "good": remembering()}
    catalog = PolicyCatalog(settings, report=lambda name, error: reported.append(name))
    (good,) = catalog.plan("good").rules
    catalog.close()
    assert reported == ["bad"]
    assert isinstance(good.policy, Remembering)
    assert good.policy.closed == 1


@pytest.mark.bulk
@pytest.mark.parametrize(
    "text",
    ["a" + " " * LONG + "b", "a:b" + " " * LONG + '"x', 'a:"' + '""' * LONG, "a," * LONG, "a:" * LONG],
    ids=["spaces", "spaces before a quote", "quotes", "commas", "colons"],
)
def test_parsing_time_is_linear_and_messages_are_short(text: str) -> None:
    """With quadratic time this would not finish."""
    with pytest.raises(ValueError, match=r"policy|policies|is invalid") as refused:
        PolicyCatalog({}).plan(text)
    assert len(str(refused.value)) < 400


def test_the_number_of_policies_of_a_topic_is_limited() -> None:
    catalog = PolicyCatalog({})
    assert len(catalog.plan("key," * MAX_RULES_PER_TOPIC).rules) == MAX_RULES_PER_TOPIC
    with pytest.raises(ValueError, match="names 101 policies: a topic can have at most 100"):
        catalog.plan("key," * (MAX_RULES_PER_TOPIC + 1))


names = st.from_regex(r"[A-Za-z_][\w-]{0,10}", fullmatch=True)


@given(st.lists(st.tuples(names, st.text()), min_size=1))
def test_any_argument_can_be_written_in_quotes(rules: list[tuple[str, str]]) -> None:
    text = ", ".join('{}:"{}"'.format(name, argument.replace('"', '""')) for name, argument in rules)
    assert list(parse_items(text)) == rules


@given(st.text())
def test_random_text_is_parsed_or_rejected_with_the_syntax(text: str) -> None:
    with suppress(ValueError):
        assert all(re.fullmatch(r"[\w-]+", name) for name, _ in parse_items(text))


def test_every_built_in_policy_is_registered() -> None:
    for name in POLICIES.built_in:
        assert issubclass(POLICIES.by_name(name), RecordValidationPolicy)


def test_all_unknown_policies_of_a_string_are_named_each_with_what_may_be_meant() -> None:
    with pytest.raises(
        ValueError, match=r"unknown policies 'jsno' \(did you mean json\?\), 'require_headers' \(did you"
    ):
        PolicyCatalog({}).plan("jsno, require_headers:x, json")
