"""To which objects the headers of a record refer."""

from __future__ import annotations

import pytest

from kafka_sidecar.large_messages.object_reference import ObjectReference, new_key
from kafka_sidecar.proxy.features.large_messages.clean_up import IncompleteError
from kafka_sidecar.proxy.features.large_messages.topic_references import keys_in

KEY = new_key("orders", bytes(16))
HEADER = ObjectReference(KEY, 1, 2).encode()


def test_a_reference_is_found_among_other_headers() -> None:
    assert keys_in("orders", [("a", None), ("_lmo", HEADER), ("_lm", b"")]) == [KEY]


@pytest.mark.parametrize("value", [None, b"", b"\1short", ObjectReference("returns/1", 1, 2).encode(), HEADER + b"0"])
def test_what_no_sidecar_has_written_for_this_topic_is_no_reference(value: bytes | None) -> None:
    assert keys_in("orders", [("_lmo", value)]) == []


def test_with_a_reference_of_a_newer_version_nothing_of_the_topic_is_deleted() -> None:
    with pytest.raises(IncompleteError, match="a header _lmo has version 2: use the newest sidecar"):
        keys_in("orders", [("_lmo", b"\2" + HEADER[1:])])
