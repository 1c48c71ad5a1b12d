"""AlterClientQuotas (49): quotas to be set or removed (KIP-546).

The response has other structs of the same names (`altered_client_quotas`).
"""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, boolean, float64, string


class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Struct):
    entity: tuple[EntityData, ...] = array(EntityData, "0+")
    ops: tuple[OpData, ...] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: tuple[EntryData, ...] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")
