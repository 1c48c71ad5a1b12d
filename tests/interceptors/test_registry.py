"""Lookup of interceptor classes."""

from __future__ import annotations

import pytest

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, ProducerInterceptor
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.settings import Settings


@pytest.mark.parametrize("name", INTERCEPTORS.built_in)
def test_every_built_in_interceptor_is_found_with_its_settings(name: str) -> None:
    found = INTERCEPTORS.by_name(name)
    assert issubclass(found, ProducerInterceptor | ConsumerInterceptor)
    assert isinstance(getattr(found, "settings", None), Settings)
    assert found.__module__ == f"kafka_sidecar.interceptors.builtin.{name}"
    assert (found.__doc__ or "").strip()


def test_an_interceptor_is_found_by_its_module_and_class() -> None:
    found = INTERCEPTORS.find("kafka_sidecar.interceptors.contract:ProducerInterceptor")
    assert found is ProducerInterceptor


def test_an_unknown_interceptor_type_is_rejected_with_a_list_of_the_built_in_ones() -> None:
    with pytest.raises(
        ValueError, match="unknown interceptor 'nope': set its type to module:Class, or to one of add_header"
    ):
        INTERCEPTORS.find("nope")


def test_a_misspelt_interceptor_or_class_is_rejected_with_what_may_be_meant() -> None:
    with pytest.raises(ValueError, match=r"unknown interceptor 'mask_feilds': did you mean mask_fields\? set its type"):
        INTERCEPTORS.find("mask_feilds")
    with pytest.raises(ValueError, match=r"the module has no such class, did you mean ProducerInterceptor\?$"):
        INTERCEPTORS.find("kafka_sidecar.interceptors.contract:ProducerIntercepter")


def test_a_policy_class_is_rejected_as_an_interceptor() -> None:
    with pytest.raises(ValueError, match=r"interceptor class RequireHeader .* is not a subclass of .*Interceptor"):
        INTERCEPTORS.find("kafka_sidecar.policies.builtin.require_header:RequireHeader")


def test_the_remedy_has_an_example_of_a_class_name() -> None:
    assert INTERCEPTORS.example == "acme.interceptors:Tenant"
    with pytest.raises(ValueError, match=r"such as acme\.interceptors:Tenant"):
        INTERCEPTORS.find("no class!")
