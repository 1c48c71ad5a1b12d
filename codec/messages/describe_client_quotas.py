"""DescribeClientQuotas (48): quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, float64, int16, int32, string


class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ValueData(Struct):
    key: str = string("0+")
    value: float = float64("0+")


class EntryData(Struct):
    entity: tuple[EntityData, ...] = array(EntityData, "0+")
    values: tuple[ValueData, ...] = array(ValueData, "0+")


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: tuple[EntryData, ...] | None = array(EntryData, "0+", nullable="0+")
