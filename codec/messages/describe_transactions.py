"""DescribeTransactions (65): the state of transactions (KIP-664)."""

from __future__ import annotations

from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.schema.fields import array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, api_key=65, versions="0", flexible="0+"):
    transactional_ids: tuple[str, ...] = array(string, "0+")


class TopicData(Struct):
    topic: str = string("0+")
    partitions: tuple[int, ...] = array(int32, "0+")


class TransactionState(Struct):
    error_code: int = int16("0+")
    transactional_id: str = string("0+")
    transaction_state: str = string("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_start_time_ms: int = int64("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    topics: tuple[TopicData, ...] = array(TopicData, "0+")


class DescribeTransactionsResponse(Message, api_key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    transaction_states: tuple[TransactionState, ...] = array(TransactionState, "0+")
