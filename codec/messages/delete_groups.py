"""DeleteGroups (42): groups to be deleted, with their committed offsets."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, string


class DeleteGroupsRequest(Message, api_key=42, versions="0-3", flexible="2+"):
    groups_names: tuple[str, ...] = array(string, "0+")


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("3+", nullable="3+", default=None)


class DeleteGroupsResponse(Message, api_key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: tuple[DeletableGroupResult, ...] = array(DeletableGroupResult, "0+")
