"""The APIs of transactions, the operations that each needs as KafkaApis checks them, and how each answers that they are
not allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.message import Message, Struct, replace_fields
from kafka_sidecar.codec.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from kafka_sidecar.proxy.exchanges.elements import reject_partitions
from kafka_sidecar.proxy.exchanges.messages import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import (
    CheckedApi,
    Need,
    Sight,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
    shown_if,
)
from kafka_sidecar.proxy.features.authorization.group_apis import committed
from kafka_sidecar.proxy.features.authorization.topic_apis import named


def _producer(request: init_producer_id.InitProducerIdRequest) -> Iterable[Need]:
    if request.transactional_id is None:
        return (on_cluster(Operation.IDEMPOTENT_WRITE),)
    operations = (Operation.WRITE, Operation.TWO_PHASE_COMMIT) if request.enable2_pc else (Operation.WRITE,)
    return (on_transaction(operation, request.transactional_id) for operation in operations)


def _transaction(request: Any) -> Iterable[Need]:
    return (on_transaction(Operation.WRITE, request.transactional_id),)


def _transaction_and_group(request: Any) -> Iterable[Need]:
    return (*_transaction(request), on_group(Operation.READ, request.group_id))


def _writing(request: add_partitions_to_txn.AddPartitionsToTxnRequest) -> Iterable[Need]:
    if request.transactions:  # KIP-890: brokers verify transactions of others
        return (on_cluster(Operation.CLUSTER_ACTION),)
    return (on_transaction(Operation.WRITE, request.v3_and_below_transactional_id),)


def _reject_writing(
    of: add_partitions_to_txn.AddPartitionsToTxnTopic, why: Rejection
) -> add_partitions_to_txn.AddPartitionsToTxnTopicResult:
    partitions = (
        add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
            partition_index=index, partition_error_code=why.error_code
        )
        for index in of.partitions
    )
    return add_partitions_to_txn.AddPartitionsToTxnTopicResult(name=of.name, results_by_partition=tuple(partitions))


def _refuse_writing(request: add_partitions_to_txn.AddPartitionsToTxnRequest, why: Rejection) -> Message:
    results = tuple(_reject_writing(topic, why) for topic in request.v3_and_below_topics)
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        error_code=why.error_code, results_by_topic_v3_and_below=results
    )


def _refuse_markers(request: write_txn_markers.WriteTxnMarkersRequest, why: Rejection) -> Message:
    def topics(marker: write_txn_markers.WritableTxnMarker) -> Iterable[write_txn_markers.WritableTxnMarkerTopicResult]:
        for topic in marker.topics:
            partitions = (
                write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=index, error_code=why.error_code)
                for index in topic.partition_indexes
            )
            yield write_txn_markers.WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(partitions))

    return write_txn_markers.WriteTxnMarkersResponse(
        markers=tuple(
            write_txn_markers.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics(marker)))
            for marker in request.markers
        )
    )


def _reject_state(transactional_id: str, why: Rejection) -> Struct:
    return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=why.error_code)


def _with_shown_topics(
    state: describe_transactions.TransactionState, request: Any, allows: Sight
) -> describe_transactions.TransactionState:
    topics = tuple(one for one in state.topics if allows.deny(on_topic(Operation.DESCRIBE, one.topic)) is None)
    return replace_fields(state, topics=topics)


TRANSACTION_APIS: Mapping[int, CheckedApi] = {
    ApiKey.INIT_PRODUCER_ID: CheckedApi(
        request=init_producer_id.InitProducerIdRequest,
        response=init_producer_id.InitProducerIdResponse,
        needs=_producer,
        refuse=lambda request, why: init_producer_id.InitProducerIdResponse(
            error_code=why.error_code, producer_id=-1, producer_epoch=-1
        ),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: CheckedApi(
        request=add_partitions_to_txn.AddPartitionsToTxnRequest,
        response=add_partitions_to_txn.AddPartitionsToTxnResponse,
        needs=_writing,
        refuse=_refuse_writing,
        results="results_by_topic_v3_and_below",
        arrays=("v3_and_below_topics",),
        need_of=partial(named, Operation.WRITE),
        reject=_reject_writing,
        error_of_others=ErrorCode.OPERATION_NOT_ATTEMPTED,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: CheckedApi(
        request=add_offsets_to_txn.AddOffsetsToTxnRequest,
        response=add_offsets_to_txn.AddOffsetsToTxnResponse,
        needs=_transaction_and_group,
    ),
    ApiKey.END_TXN: CheckedApi(request=end_txn.EndTxnRequest, response=end_txn.EndTxnResponse, needs=_transaction),
    ApiKey.TXN_OFFSET_COMMIT: CheckedApi(
        request=txn_offset_commit.TxnOffsetCommitRequest,
        response=txn_offset_commit.TxnOffsetCommitResponse,
        needs=_transaction_and_group,
        results="topics",
        arrays=("topics",),
        need_of=committed,
        reject=partial(
            reject_partitions,
            txn_offset_commit.TxnOffsetCommitResponseTopic,
            txn_offset_commit.TxnOffsetCommitResponsePartition,
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: CheckedApi(
        request=write_txn_markers.WriteTxnMarkersRequest,
        response=write_txn_markers.WriteTxnMarkersResponse,
        unless=on_cluster(Operation.ALTER),
        needs=lambda request: (on_cluster(Operation.CLUSTER_ACTION),),
        refuse=_refuse_markers,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: CheckedApi(
        request=describe_transactions.DescribeTransactionsRequest,
        response=describe_transactions.DescribeTransactionsResponse,
        results="transaction_states",
        arrays=("transactional_ids",),
        need_of=lambda name, request: on_transaction(Operation.DESCRIBE, name),
        reject=_reject_state,
        shown=_with_shown_topics,
    ),
    ApiKey.LIST_TRANSACTIONS: CheckedApi(
        response=list_transactions.ListTransactionsResponse,
        results="transaction_states",
        shown=shown_if(lambda state: on_transaction(Operation.DESCRIBE, state.transactional_id)),
    ),
}
