"""mask_fields: JSON fields that are hidden from consumers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Records, batches, build_batch
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.schemas.json_paths import JsonPaths

Consumed = Callable[..., list[bytes | None]]
CARD = {"fields": ["$.card.number"]}
SECRET = "4000123456789010"


@pytest.fixture
def consumed(a_batch: Callable[..., Records], context: Callable[..., Context], report: Any) -> Consumed:
    """The values of a topic's records as a consumer gets them."""

    def of(settings: Mapping[str, Any], *values: bytes | str | None, limits: Limits | None = None) -> list[Any]:
        named = InterceptorSettings("mask_fields", "mask", settings=settings, limits=limits or Limits())
        catalog = InterceptorCatalog([named], report)
        consumers = catalog.consumers("customers")
        assert consumers is not None
        (empty,) = batches(build_batch([]))
        records = a_batch(*({"value": one.encode() if isinstance(one, str) else one} for one in values))
        left = consumers.consume(context(), "customers", 0, empty.header, records)
        of.records, of.left, of.catalog = records, left, catalog  # type: ignore[attr-defined]
        assert report.failures == []
        return [record.value for record in left]

    return of


def test_a_field_is_masked_and_every_other_byte_stays(consumed: Consumed) -> None:
    value = '{ "id":12345678901234567890, "card": {"number" : "4000", "x": 1.50E+2}, "id": 1,"s":"\\u00fc" }\n'
    assert consumed(CARD, value) == [value.replace('"4000"', '"***"').encode()]


def test_records_without_masked_fields_are_unchanged(consumed: Consumed) -> None:
    consumed(CARD, '{"card": {}}', None, "[]", '{"card": {"number": "***"}}', '{"card": {"number": null}}')
    assert consumed.left is consumed.records  # type: ignore[attr-defined]


def test_a_whole_object_can_be_masked(consumed: Consumed) -> None:
    assert consumed({"fields": ["$.card"]}, '{"card": {"number": [1, {}]}, "a": 1}') == [b'{"card": "***", "a": 1}']


def test_duplicate_and_escaped_keys_are_masked_too(consumed: Consumed) -> None:
    value = '{"card": {"number": "A", "number": "B"}, "c\\u0061rd": {"numbe\\u0072": "C"}, "card": 1}'
    (masked,) = consumed(CARD, value)
    assert masked is not None
    assert masked.count(b"***") == 3


def test_a_null_field_stays_null_as_in_kafka_connects_mask_field(consumed: Consumed) -> None:
    assert consumed({"fields": ["$.a", "$.b"]}, '{"a": null, "b": 1}') == [b'{"a": null, "b": "***"}']


@pytest.mark.parametrize(
    ("mask", "field", "expected"),
    [
        ("gone", '"x"', '"gone"'),
        ("", '"x"', '""'),
        ('ü"', '"x"', r'"ü\""'),
        (None, '"x"', "null"),
        ({"keep_last": 4}, f'"{SECRET}"', '"***9010"'),
        ({"keep_last": 4}, "4000123456789010", '"***9010"'),
        ({"keep_last": 4}, '"12345678"', '"***5678"'),
        ({"keep_last": 4}, '"1234567"', '"***"'),
        ({"keep_last": 1}, r'"\u00e9\u00fc"', '"***ü"'),
        ({"keep_last": 1}, r'"a\""', r'"***\""'),
        ({"keep_last": 1}, '{"a": 1}', '"***"'),
        ({"keep_last": 1}, "[1, 2]", '"***"'),
        ({"keep_last": 1}, "false", '"***"'),
        ({"keep_last": 1}, "null", "null"),
    ],
)
def test_the_replacement_of_a_field_is_configurable(mask: Any, field: str, expected: str, consumed: Consumed) -> None:
    assert consumed({"fields": ["$.a"], "with": mask}, f'{{"a": {field}}}') == [f'{{"a": {expected}}}'.encode()]


UNREADABLE = [SECRET.encode(), f'"{SECRET}"'.encode(), b"", b"\xff", b'{"card": {"number": "4000"', b"\0\0\0\0\1{}"]


def test_an_unreadable_value_is_hidden_by_default(consumed: Consumed) -> None:
    assert consumed(CARD, *UNREADABLE) == [b'"***"'] * len(UNREADABLE)
    assert consumed({**CARD, "with": None}, b"") == [b"null"]
    assert consumed({**CARD, "with": {"keep_last": 4}}, SECRET) == [b'"***"']


def test_an_unreadable_value_is_kept_or_dropped_if_configured(consumed: Consumed) -> None:
    assert consumed({**CARD, "unreadable": "keep"}, *UNREADABLE) == UNREADABLE
    assert consumed({**CARD, "unreadable": "drop"}, *UNREADABLE, "{}") == [b"{}"]


def test_a_tombstone_is_not_changed(consumed: Consumed) -> None:
    assert consumed({**CARD, "unreadable": "drop"}, None) == [None]


@pytest.mark.parametrize(("unreadable", "expected"), [("hide", [b'"***"']), ("keep", [b'"***"']), ("drop", [])])
def test_after_an_internal_error_the_value_is_hidden_or_dropped(
    unreadable: str, expected: list[bytes], consumed: Consumed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: JsonPaths, text: bytes) -> None:
        raise RecursionError

    monkeypatch.setattr(JsonPaths, "spans", fail)
    assert consumed({**CARD, "unreadable": unreadable}, '{"card": {"number": "4000"}}') == expected


def test_mask_fields_is_never_disabled_for_being_slow(consumed: Consumed) -> None:
    value = '{"card": {"number": "4000"}}'
    consumed(CARD, value, limits=Limits(budget_s=0, failures=1))
    (guard,) = consumed.catalog.guards  # type: ignore[attr-defined]
    assert guard.over_budget
    assert not guard.is_disabled


def test_masked_fields_and_unreadable_values_are_counted(consumed: Consumed) -> None:
    consumed(CARD, '{"card": {"number": 1}}', '{"card": {"number": 2}}', "{}", "none", None)
    (figures,) = consumed.catalog.guards[0].interceptor.metrics()  # type: ignore[attr-defined]
    assert dict(figures.counters) == {("fields",): 2, ("unreadable",): 1}


anything = st.recursive(
    st.none() | st.integers() | st.just(SECRET) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pin", "a", "b"]), inner, max_size=3),
    max_leaves=15,
)


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "***" if name == "pin" and one is not None else without(one) for name, one in value.items()}
    return [without(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.sampled_from(["pin", "a"]), anything, max_size=2), st.booleans())
def test_the_result_is_the_same_json_with_the_fields_replaced(value: Any, spaced: bool) -> None:
    from kafka_sidecar.interceptors.builtin.mask_fields import MaskFields
    from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords

    mask = MaskFields()
    mask.configure({"fields": ["$..pin"]})
    text = json.dumps(value, indent=2 if spaced else None)
    (left,) = mask.on_consume(ConsumerRecords([ConsumerRecord("t", 0, 7, b"k", text.encode())]))
    assert left.value is not None
    assert json.loads(left.value) == without(value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "interceptor mask: has no effect: set fields"),
        ({"fields": ["card.number"]}, r"interceptor mask: fields: 'card\.number' names no field: write \$"),
        ({**CARD, "with": {"keep_last": 0}}, "with: write a text, null, or {keep_last: 4}"),
        ({**CARD, "with": 0}, "with: write a text, null, or {keep_last: 4}"),
        ({**CARD, "unreadable": "show"}, "unreadable: .*'hide', 'keep' or 'drop'"),
        (
            {**CARD, "wiht": "x"},
            r"wiht is not a setting; did you mean with\? the settings are fields",
        ),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str, consumed: Consumed) -> None:
    with pytest.raises(ValueError, match=message):
        consumed(settings)
