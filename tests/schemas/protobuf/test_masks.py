"""Masked fields of messages: of the same type, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import for_each
from support.protobuf_values import files, message_class, values

from kafka_sidecar.schemas.json_paths import JsonPaths
from kafka_sidecar.schemas.language import NotOfSchemaError
from kafka_sidecar.schemas.masks import Mask
from kafka_sidecar.schemas.protobuf.masks import UnmaskableError
from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

SCHEMA = ProtobufSchema.parse("""syntax = "proto2";
package shop;
import "google/protobuf/wrappers.proto"; import "google/protobuf/timestamp.proto";
message Order {
  optional string card = 1; repeated Item items = 2; map<string, string> notes = 3;
  optional google.protobuf.StringValue name = 4;
  repeated int32 ns = 5 [packed = true]; optional group Login = 6 { optional string pin = 1; } optional Item item = 7;
  map<int32, Item> by = 8; optional State state = 9; repeated string tags = 10; optional double price = 11;
  optional sint64 delta = 12; optional fixed32 code = 13; optional bool paid = 14; optional bytes digest = 15;
  optional google.protobuf.Timestamp at = 16; map<bool, int64> flags = 17;
}
message Item { optional string sku = 1; optional int64 count = 2; optional Item item = 3; required bool is_new = 4; }
message Refund { optional string card = 1; }
enum State { NEW = 1; SENT = 2; }
""")
Order = GetMessageClass(SCHEMA.descriptor)


def order() -> Any:
    message = Order(
        card="4111222233334444", ns=[1, 200, 3], state=2, tags=["x", "y"], price=1.5, delta=-3, code=7, paid=True
    )
    message.digest = b"\xff\xfe"
    message.notes["a"], message.name.value, message.login.pin = "1", "w", "p"
    message.by[3].sku, message.by[3].is_new = "q", True
    message.flags[True] = 5
    message.item.sku, message.item.is_new, message.at.seconds = "s", True, 5
    for number in range(2):
        message.items.add(sku=f"sku{number}", count=number, is_new=True)
    return message


def mask_of(mask: str | int | float | None, keep_last: int = 0) -> Mask:
    return Mask(number=mask) if isinstance(mask, int | float) else Mask(mask, keep_last=keep_last)


def masked(*paths: str, mask: str | int | float | None = "***", keep_last: int = 0) -> Any:
    data = order().SerializeToString()
    new = SCHEMA.replace_fields(b"12" + data + b"3", 2, 2 + len(data), JsonPaths(paths), mask_of(mask, keep_last))
    assert SCHEMA.find_fault(new, 0, len(new)) is None
    return Order.FromString(new)


def changed(change: Any) -> Any:
    message = order()
    change(message)
    return message


def _set(message: Any, path: str, value: Any) -> Any:
    *names, last = path.split(".")
    for name in names:
        message = message[int(name)] if name.isdigit() else getattr(message, name)
    setattr(message, last, value)


MASKED: list[tuple[str, str | int | float | None, int, Any]] = [
    ("$.card", "***", 0, lambda m: _set(m, "card", "***")),
    ("$.card", "x" * 300, 0, lambda m: _set(m, "card", "x" * 300)),
    ("$.card", None, 0, lambda m: _set(m, "card", "")),
    ("$.card", "***", 4, lambda m: _set(m, "card", "***4444")),
    ("$.item.sku", "***", 4, lambda m: _set(m, "item.sku", "***")),
    ("$.items[*].sku", "-" * 200, 0, lambda m: (_set(m, "items.0.sku", "-" * 200), _set(m, "items.1.sku", "-" * 200))),
    ("$.items[1].sku", "-", 0, lambda m: _set(m, "items.1.sku", "-")),
    ("$.items[1]", "1", 0, None),
    ("$.notes.a", "-", 0, lambda m: m.notes.update({"a": "-"})),
    ("$.notes[*]", "-", 0, lambda m: m.notes.update({"a": "-"})),
    ("$.notes", "-", 0, lambda m: m.notes.update({"a": "-"})),
    ("$.notes.b", "-", 0, lambda m: None),
    ("$.flags['true']", 9, 0, lambda m: m.flags.update({True: 9})),
    ("$.by['3'].sku", "-", 0, lambda m: _set(m.by[3], "sku", "-")),
    ("$.name", "-", 0, lambda m: _set(m, "name.value", "-")),
    ("$.login.pin", "-", 0, lambda m: _set(m, "login.pin", "-")),
    ("$.tags", "-", 0, lambda m: m.tags.__setitem__(slice(None), ["-", "-"])),
    ("$.tags[0]", "-", 0, lambda m: m.tags.__setitem__(0, "-")),
    ("$.ns[1]", -5, 0, lambda m: m.ns.__setitem__(1, -5)),
    ("$.ns", 0, 0, lambda m: m.ns.__setitem__(slice(None), [0, 0, 0])),
    ("$.state", "NEW", 0, lambda m: _set(m, "state", 1)),
    ("$.state", None, 0, lambda m: _set(m, "state", 1)),
    ("$.price", -2.5, 0, lambda m: _set(m, "price", -2.5)),
    ("$.delta", -1, 0, lambda m: _set(m, "delta", -1)),
    ("$.delta", None, 0, lambda m: _set(m, "delta", 0)),
    ("$.code", 1, 0, lambda m: _set(m, "code", 1)),
    ("$.paid", "***", 0, lambda m: _set(m, "paid", False)),
    ("$.digest", "***", 0, lambda m: _set(m, "digest", b"***")),
    ("$.at", None, 0, lambda m: _set(m, "at.seconds", 0)),
    ("$..sku", "-", 0, lambda m: [_set(one, "sku", "-") for one in (*m.items, m.item, m.by[3])]),
    ("$.nothing.at.all", "-", 0, lambda m: None),
]


@for_each(MASKED)
def test_a_field_is_masked_in_its_own_type(example: tuple[str, str | int | float | None, int, Any]) -> None:
    path, mask, keep_last, change = example
    if change is None:
        with pytest.raises(UnmaskableError):
            masked(path, mask=mask, keep_last=keep_last)
        return
    new, expected = masked(path, mask=mask, keep_last=keep_last), changed(change)
    if path == "$.at":
        assert new.HasField("at")
        assert new.at.seconds == 0
    else:
        assert new == expected


def test_several_paths_are_masked_together() -> None:
    new = masked("$.card", "$..sku", "$.login.pin", mask="-")
    assert (new.card, new.item.sku, new.login.pin, new.by[3].sku) == ("-", "-", "-", "-")


def test_what_is_not_named_keeps_its_bytes_and_unknown_fields_stay() -> None:
    odd = b"\x0a\x84\x00card\xa0\x06\x81\x80\x00\x12\x05\x20\x01\xf8\x07"  # longer numbers than needed, unknown fields
    odd += b"\x00\x0a\x04more\x3a\x07\x20\x01\x0a\x03sku\xa3\x06\x08\x01\xa4\x06"
    new = SCHEMA.replace_fields(odd, 0, len(odd), JsonPaths(["$.card"]), Mask("-"))
    assert new == odd.replace(b"\x84\x00card", b"\x01-").replace(b"\x04more", b"\x01-")
    inside = SCHEMA.replace_fields(odd, 0, len(odd), JsonPaths(["$.item.sku"]), Mask("--"))
    assert inside == odd.replace(b"\x3a\x07\x20\x01\x0a\x03sku", b"\x3a\x06\x20\x01\x0a\x02--")
    assert SCHEMA.replace_fields(odd, 0, len(odd), JsonPaths(["$.name"]), Mask("-")) == odd


def test_message_indexes_stay_and_choose_the_type() -> None:
    framed = b"\2\4\x0a\x04card"
    assert (
        SCHEMA.replace_fields(framed, 0, len(framed), JsonPaths(["$.card"]), Mask("-"), framed=True) == b"\2\4\x0a\x01-"
    )


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(NotOfSchemaError, match=r"^\$\.card: ends too early at byte 2$"):
        SCHEMA.replace_fields(b"\x0a\x05", 0, 2, JsonPaths(["$.card"]), Mask())


UNMASKABLE: list[tuple[list[str], str | int | float | None, list[str]]] = [
    (["$.card", "$..sku", "$.notes[*]", "$.name", "$.digest", "$.price", "$.state", "$.paid", "$.ns"], "***", []),
    (["$.ns[0]"], 3e9, ["$.ns[0]: 3000000000.0 is not a number of the type int32"]),
    (["$.code"], -1, ["$.code: -1 is not a number of the type fixed32"]),
    (["$.delta"], 1.5, ["$.delta: 1.5 is not a number of the type sint64"]),
    (["$.delta", "$.price"], 2**63, ["$.delta: 9223372036854775808 is not a number of the type sint64"]),
    (["$.at"], "***", ["$.at: a message google.protobuf.Timestamp cannot be masked"]),
    (["$.at", "$.price", "$.state"], None, []),
    (["$.item"], None, ["$.item: a message shop.Item cannot be masked"]),
    (["$.by[*]"], "-", ["$.by{}: a message shop.Item cannot be masked"]),
    (["$.by['3']"], "-", ["$.by{}: a message shop.Item cannot be masked"]),
    (["$.nothing"], "-", []),
]


@for_each(UNMASKABLE)
def test_what_cannot_have_the_mask_is_said_in_advance(
    example: tuple[list[str], str | int | float | None, list[str]],
) -> None:
    paths, mask, expected = example
    assert SCHEMA.find_unmaskable(JsonPaths(paths), mask_of(mask)) == expected


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_is_not_said_in_advance_can_be_masked(data: st.DataObject) -> None:
    file = data.draw(files())
    kind, schema = message_class(file, "p.M0"), ProtobufSchema.from_descriptor(file.SerializeToString())
    message = data.draw(values(kind))
    if not message.IsInitialized():
        return
    whole = message.SerializeToString()
    path = data.draw(st.sampled_from(["$..f0", "$.f0", "$.f1[*]", "$.f0.f1", "$.*", "$..f1.f0"]))
    mask = data.draw(st.sampled_from(["***", 1, -1.5, None]))
    try:
        new = schema.replace_fields(whole, 0, len(whole), JsonPaths([path]), mask_of(mask))
    except UnmaskableError:
        assert schema.find_unmaskable(JsonPaths([path]), mask_of(mask))
        return
    assert schema.find_fault(new, 0, len(new)) is None
    again = schema.replace_fields(new, 0, len(new), JsonPaths([path]), mask_of(mask))
    assert again == new
