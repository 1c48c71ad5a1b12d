"""What is accepted as a message: as Google's library decides, for any schema and any bytes."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.protobuf_values import damaged, files, message_class, values

from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

SLOW = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def accepted(kind: Any, data: bytes) -> bool:
    """Whether Google's library parses bytes and has all that is required."""
    try:
        return bool(kind.FromString(data).IsInitialized())
    except DecodeError:
        return False


@SLOW
@given(st.data())
def test_what_is_accepted_is_what_upb_accepts(data: st.DataObject) -> None:
    file = data.draw(files())
    kind, schema = message_class(file, "p.M0"), ProtobufSchema.from_descriptor(file.SerializeToString())
    written = data.draw(values(kind)).SerializePartialToString()
    for one in (written, data.draw(damaged(written)), data.draw(st.binary(max_size=20))):
        fault = schema.find_fault(one, 0, len(one))
        assert (fault is None) == accepted(kind, one), (one.hex(), fault)
