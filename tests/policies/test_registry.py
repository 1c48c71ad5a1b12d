"""Lookup of policy classes, and the errors if one is not found."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import EntryPoint

import pytest

from kafka_sidecar.plugins.registry import installed
from kafka_sidecar.policies.builtin.require_header import RequireHeader
from kafka_sidecar.policies.registry import POLICIES

PLACE = "kafka_sidecar.policies.builtin.require_header"


@pytest.mark.parametrize("name", ["require_header", f"{PLACE}:RequireHeader", f"{PLACE}.RequireHeader"])
def test_a_class_is_found_by_its_built_in_name_or_its_module_and_class(name: str) -> None:
    assert POLICIES.find(name) is RequireHeader


@pytest.fixture(autouse=True)
def _nothing_is_known() -> Iterator[None]:
    installed.cache_clear()
    yield
    installed.cache_clear()


def test_a_class_is_found_by_the_name_of_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("acme", f"{PLACE}:RequireHeader", POLICIES.entry_points)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    assert POLICIES.find("acme") is RequireHeader
    assert POLICIES.known()["acme"] == f"{PLACE}:RequireHeader"


def test_an_entry_point_does_not_replace_a_built_in_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("require_header", "acme:Other", POLICIES.entry_points)
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    assert POLICIES.find("require_header") is RequireHeader


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", r"unknown policy 'nope': set its type to module:Class, or to one of .*require_header"),
        ("no.such:Thing", "policy class Thing of module no.such, among the installed modules: cannot be imported"),
        ("no.such:Thing", "No module named 'no'; install it, or put it on the class_path"),
        ("json:Thing", "policy class Thing of module json, .*: the module has no such class"),
        ("json:JSONDecoder", "policy class JSONDecoder of module json, .*: is not a subclass of .*ValidationPolicy"),
        ("json:", "'json:' is not the name of a class: write module:Class"),
        ("a b:C", "is not the name of a class"),
    ],
)
def test_a_policy_that_is_not_found_is_reported_in_one_line_with_where_it_was_searched(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        POLICIES.find(name)
    assert "\n" not in str(refused.value)
