"""LeaveGroup (13): the response to members that leave a group."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
    members: tuple[MemberResponse, ...] = array(MemberResponse, "3+")
