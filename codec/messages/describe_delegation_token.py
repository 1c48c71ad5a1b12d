"""DescribeDelegationToken (41): the tokens of owners."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, binary, int16, int32, int64, string


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64("0+")
    expiry_timestamp: int = int64("0+")
    max_timestamp: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Message, api_key=41, versions="1-3", flexible="2+"):
    error_code: int = int16("0+")
    tokens: tuple[DescribedDelegationToken, ...] = array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = int32("0+")
