"""add_header: values from the configuration, environment, files and the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.contract import Context, ProducerInterceptor, RecordBatch
from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.interceptors.registry import INTERCEPTORS

Made = Callable[..., Any]


def test_headers_are_added_at_the_end_in_configured_order(configured: Made, sent: Made) -> None:
    adding = configured("add_header", headers={"z": "1", "a": "2"})
    assert sent(adding, {"headers": [("m", None)]}) == [[("m", None), ("z", b"1"), ("a", b"2")]]


def test_an_existing_header_is_kept_whatever_its_value(configured: Made, sent: Made) -> None:
    adding = configured("add_header", headers={"tenant": "acme"})
    records: list[Any] = [{"headers": [("tenant", None)]}, {"headers": [("tenant", b"x"), ("tenant", b"y")]}, {}]
    assert sent(adding, *records) == [[("tenant", None)], [("tenant", b"x"), ("tenant", b"y")], [("tenant", b"acme")]]


def test_without_if_absent_a_second_header_is_added(configured: Made, sent: Made) -> None:
    adding = configured("add_header", headers={"tenant": "acme"}, if_absent=False)
    assert sent(adding, {"headers": [("tenant", b"x")]}) == [[("tenant", b"x"), ("tenant", b"acme")]]


@given(
    there=st.lists(st.tuples(st.sampled_from(["a", "b", "é"]), st.none() | st.binary(max_size=3)), max_size=4),
    added=st.dictionaries(st.sampled_from(["a", "b", "é"]), st.text("xyü", max_size=200), min_size=1),
    if_absent=st.booleans(),
)
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_gets_the_headers_that_each_record_alone_would_get(
    there: list[Any], added: dict[str, str], if_absent: bool, configured: Made, sent: Made
) -> None:
    one_by_one = Headers(there, journal=[])
    for key, text in added.items():
        if not (if_absent and one_by_one.last_header(key)):
            one_by_one.add(key, text.encode())
    found = sent(configured("add_header", headers=added, if_absent=if_absent), {"headers": there}, {"headers": there})
    assert found == [[(header.key, header.value) for header in one_by_one]] * 2


def test_unchanged_records_are_returned_as_the_same_object(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    records = a_batch({"headers": [("tenant", b"x")]})
    adding = configured("add_header", headers={"tenant": "acme", "who": {"from": "principal"}})
    assert adding.on_send_batch(RecordBatch("orders", 0, records, context(principal=None))) is records


def test_a_value_can_come_from_an_environment_variable(
    configured: Made, sent: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", "orders-7")
    monkeypatch.delenv("ZONE", raising=False)
    headers = {"pod": {"env": "POD_NAME"}, "zone": {"env": "ZONE", "default": "nowhere"}}
    assert sent(configured("add_header", headers=headers), {}) == [[("pod", b"orders-7"), ("zone", b"nowhere")]]


def test_a_value_can_come_from_a_file_without_surrounding_white_space(
    configured: Made, sent: Made, tmp_path: Path
) -> None:
    path = tmp_path / "labels"
    path.write_bytes(b' app="orders" \n')
    adding = configured("add_header", headers={"labels": {"file": str(path)}})
    path.unlink()  # it is read once
    assert sent(adding, {}) == [[("labels", b'app="orders"')]]


def test_a_value_can_be_any_bytes(configured: Made, sent: Made) -> None:
    assert sent(configured("add_header", headers={"raw": {"base64": "/wA="}}), {}) == [[("raw", b"\xff\x00")]]


def test_a_value_can_come_from_the_client(configured: Made, sent: Made) -> None:
    names = ("client_id", "client_software", "principal", "session")
    adding = configured("add_header", headers={name: {"from": name} for name in names})
    about = {"client_id": "app", "client_software": "librdkafka 2.10", "principal": "User:alice", "session": 7}
    assert sent(adding, {}, **about) == [[(name, str(about[name]).encode()) for name in names]]


def test_an_unknown_attribute_of_the_client_adds_no_header(configured: Made, sent: Made) -> None:
    adding = configured("add_header", headers={"who": {"from": "principal"}, "tenant": "acme"})
    assert sent(adding, {}) == [[("tenant", b"acme")]]


@pytest.mark.parametrize(
    ("headers", "remedy"),
    [
        ({}, "has no effect: set headers"),
        ({"a": 1}, "headers.a: write text, in quotes if it looks like a number, or one of {env: NAME}"),
        ({"a": {"env": "A", "file": "b"}}, "headers.a: write text"),
        ({"a": {"env": "NOT_SET_ANYWHERE"}}, "headers.a: the environment variable NOT_SET_ANYWHERE is not set"),
        ({"a": {"file": "/nowhere/at/all"}}, "headers.a: cannot read /nowhere/at/all: No such file"),
        ({"a": {"base64": "?"}}, "headers.a: is not base64"),
        ({"a": {"from": "password"}}, "headers.a: from: unknown value password: write one of client_id, "),
    ],
)
def test_an_invalid_setting_is_rejected_with_its_remedy(configured: Made, headers: Any, remedy: str) -> None:
    with pytest.raises(ValueError) as error:
        configured("add_header", headers=headers)
    assert str(error.value).startswith(remedy)


def test_add_header_is_only_a_producer_interceptor() -> None:
    assert [kind.__name__ for kind in INTERCEPTORS.find("add_header", None).__bases__] == [ProducerInterceptor.__name__]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorization", "abc"),
        ("Proxy-Authorization", "abc"),
        ("x-auth-token", "abc"),
        ("api-key", {"base64": "YWJj"}),
        ("client-secret", {"env": "UNSET", "default": "abc"}),
        ("x", "Bearer eyJhbGciOi"),
        ("x", "basic dXNlcjpwdw=="),
    ],
)
def test_a_secret_in_the_file_is_an_error(configured: Made, key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{key}: a secret is not written into this file: use {{env: NAME}} or {{file"):
        configured("add_header", headers={key: value})


def test_a_secret_may_come_from_a_file_or_a_variable(configured: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "abc")
    configured("add_header", headers={"authorization": {"env": "SECRET"}, "tokens-used": "3", "bearer": "none"})
