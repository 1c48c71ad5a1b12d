"""Types of settings; an invalid value says how to write it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.types import Address, Addresses, BindableAddress, duration_field, host_port


class All(BaseModel):
    duration: Duration = duration_field("1m30s", gt=0)
    address: Address = "a:1"
    bindable: BindableAddress = "a:1"
    addresses: Addresses = ["a:1"]


def read(**values: Any) -> Any:
    (name,) = values
    return getattr(All.model_validate(values), name)


def remedy(**values: Any) -> str:
    with pytest.raises(ValidationError) as error:
        All.model_validate(values)
    (only,) = error.value.errors()
    return str(only["msg"])


def test_a_duration_may_have_to_be_above_zero() -> None:
    assert "greater than 0" in remedy(duration="0s")


def test_the_schema_has_a_default_as_it_is_written_in_the_file() -> None:
    schema = All.model_json_schema()["properties"]["duration"]
    assert (schema["default"], schema["type"]) == ("1m30s", "string")
    assert All().duration == 90


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("kafka:9092", "kafka", 9092),
        ("[::1]:9092", "::1", 9092),
        ("10.0.0.1:0", "10.0.0.1", 0),
        ("fe80::1%eth0:1", "fe80::1%eth0", 1),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert host_port(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "kafka",
        "9092",
        ":9092",
        "kafka:",
        "kafka:x",
        "kafka:-1",
        "kafka:65536",
        "a b:1",
        "a..b:1",
        "x" * 64 + ":1",
        None,
    ],
)
def test_an_invalid_address_is_quoted(text: object) -> None:
    message = remedy(address=text)
    assert "write host:port" in message
    assert repr(str(text)) in message


def test_port_0_can_be_bound_but_not_connected_to() -> None:
    assert read(bindable="kafka:0") == "kafka:0"
    assert "write a port from 1 to 65535" in remedy(address="kafka:0")


def test_addresses_are_a_list_or_separated_by_commas() -> None:
    assert read(addresses=["a:1", "b:2"]) == ["a:1", "b:2"]
    assert read(addresses="a:1, b:2") == ["a:1", "b:2"]


@pytest.mark.parametrize("none", [[], 9092, {}, None])
def test_there_is_at_least_one_broker(none: object) -> None:
    assert "name at least one broker" in remedy(addresses=none)
