"""Misspelt hooks, and hooks that could not be called, are found on the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, ProducerInterceptor
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.registry import class_problem, object_problem
from kafka_sidecar.policies.contract import RecordValidationPolicy
from kafka_sidecar.policies.registry import POLICIES


def policy(**members: Any) -> str | None:
    return class_problem(type("Orders", (RecordValidationPolicy,), members), POLICIES.hooks)


def interceptor(*bases: type, **members: Any) -> str | None:
    return class_problem(type("Tenant", bases or (ProducerInterceptor,), members), INTERCEPTORS.hooks)


async def _async(self: Any, topic: Any, record: Any) -> None: ...


async def _async_generator(self: Any, topic: Any, records: Any) -> Any:
    yield


def test_the_hooks_of_the_contracts_are_as_listed() -> None:
    assert {*POLICIES.hooks} == {
        "configure", "hints", "check", "validate", "resolve", "files", "close", "validate_batch", "validate_header",
    }  # fmt: skip
    assert {name: hook.base.__name__ for name, hook in INTERCEPTORS.hooks.items()} == {
        "configure": "Interceptor",
        "hints": "Interceptor",
        "resolve": "Interceptor",
        "files": "Interceptor",
        "metrics": "Interceptor",
        "close": "Interceptor",
        "on_send": "ProducerInterceptor",
        "on_acknowledgement": "ProducerInterceptor",
        "on_acknowledgement_with_headers": "ProducerInterceptor",
        "on_send_batch": "ProducerInterceptor",
        "on_acknowledgement_batch": "ProducerInterceptor",
        "on_consume": "ConsumerInterceptor",
        "pre_commit": "ConsumerInterceptor",
        "on_commit": "ConsumerInterceptor",
        "on_consume_batch": "ConsumerInterceptor",
    }


@pytest.mark.parametrize("kind", [POLICIES, INTERCEPTORS], ids=lambda kind: kind.noun)
def test_every_built_in_plug_in_has_correct_hooks(kind: Any) -> None:
    for name in kind.built_in:
        assert class_problem(kind.find(name), kind.hooks) is None


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("validate_bach", "validate_batch"), ("validate_headers", "validate_header"), ("validates", "validate")],
)
def test_a_misspelt_validate_names_the_nearest_hook(name: str, nearest: str) -> None:
    assert policy(**{name: lambda self, topic, records: ()}) == f"{name}() is not a hook: did you mean {nearest}()?"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("on_sent", "on_send"),
        ("on_consumed", "on_consume"),
        ("pre_comit", "pre_commit"),
        ("on_send_batches", "on_send_batch"),
        ("on_acknowledgment", "on_acknowledgement"),
        ("post_commit", "on_commit"),
    ],
)
def test_a_misspelt_hook_of_an_interceptor_names_the_nearest_one(name: str, nearest: str) -> None:
    found = interceptor(ProducerInterceptor, ConsumerInterceptor, **{name: lambda self, given: given})
    assert found == f"{name}() is not a hook: did you mean {nearest}()?"


def test_a_public_method_with_the_prefix_of_a_hook_must_be_renamed() -> None:
    assert policy(on_zzzzzzzz=lambda self: None) == "on_zzzzzzzz() is not a hook: rename it to _on_zzzzzzzz()"


def test_private_methods_and_values_may_have_any_name() -> None:
    assert policy(_on_sent=lambda self: None, validate_depth=3, schema=lambda self: None) is None


def test_a_hook_of_the_other_kind_is_never_called() -> None:
    found = interceptor(ConsumerInterceptor, on_send=lambda self, record: record)
    assert found == "on_send() is never called: extend ProducerInterceptor"


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        (lambda self: None, "validate(self) must be validate(self, topic, record)"),
        (lambda self, topic: None, "validate(self, topic) must be validate(self, topic, record)"),
        (
            lambda self, topic, record, more: None,
            "validate(self, topic, record, more) must be validate(self, topic, record)",
        ),
        (
            lambda self, topic, record, *, more: None,
            "validate(self, topic, record, *, more) must be validate(self, topic, record)",
        ),
        (staticmethod(lambda topic: None), "validate(topic) must be validate(topic, record)"),
        (classmethod(lambda cls, topic: None), "validate(topic) must be validate(topic, record)"),
        (_async, "validate() is async: hooks are not awaited"),
        (3, "validate is not a method"),
    ],
)
def test_a_hook_that_cannot_be_called_is_an_error(hook: Any, problem: str) -> None:
    assert policy(validate=hook) == problem


def test_an_async_generator_is_an_error_too() -> None:
    assert policy(validate_batch=_async_generator) == "validate_batch() is async: hooks are not awaited"


@pytest.mark.parametrize(
    "hook",
    [
        lambda self, topic, record: None,
        lambda self, where, what: None,
        lambda self, topic, record, depth=3: None,
        lambda *all_of_them: None,
        staticmethod(lambda topic, record: None),
        classmethod(lambda cls, topic, record: None),
        max,  # has no signature
    ],
)
def test_a_hook_that_can_be_called_with_the_contracts_arguments_is_accepted(hook: Callable[..., Any]) -> None:
    assert policy(validate=hook) is None


def test_resolve_may_be_async() -> None:
    async def resolve(self: Any, key: object) -> None: ...

    assert policy(resolve=resolve) is None


def test_only_the_method_that_would_be_called_counts() -> None:
    base = type("Base", (RecordValidationPolicy,), {"validate": lambda self: None})
    fixed = type("Fixed", (base,), {"validate": lambda self, topic, record: None})
    assert class_problem(fixed, POLICIES.hooks) is None


def test_hooks_assigned_in_configure_are_checked() -> None:
    one = ProducerInterceptor()
    vars(one).update(limit=3, on_send_batch=lambda batch: batch.records)
    assert object_problem(one, INTERCEPTORS.hooks) is None
    vars(one).update(on_sends_batch=lambda batch: batch.records)
    assert object_problem(one, INTERCEPTORS.hooks) == "on_sends_batch() is not a hook: did you mean on_send_batch()?"
    del one.on_sends_batch  # type: ignore[attr-defined]
    vars(one).update(on_send_batch=lambda: None)
    assert object_problem(one, INTERCEPTORS.hooks) == "on_send_batch() must be on_send_batch(batch)"
