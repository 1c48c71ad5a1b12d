"""Reads of one partition's log for assembly, as requests of our own on the client's connection to the broker.

Each is a Fetch without a session (id 0, epoch -1), so that the client's fetch session stays as the client knows it
(KIP-227), and in the version of the client's own requests, which the broker is known to take.
"""

from __future__ import annotations

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_sidecar.large_messages.reading import Fetched, Read, UnreadableError

OURS = 0x5EAD  # the correlation id, which is not compared with those of the client
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def read_request(read: Read, version: int, topic: str | bytes, partition: int, client_id: str | None) -> bytes:
    """The frame of a read. ``topic`` is its name, or from v13 on its id."""
    one = FetchPartition(partition=partition, fetch_offset=read.offset, partition_max_bytes=read.max_bytes)
    named = FetchTopic(topic_id=topic, partitions=(one,)) if isinstance(topic, bytes) else FetchTopic(
        topic=topic, partitions=(one,)
    )  # fmt: skip
    message = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=read.max_bytes, session_id=0, session_epoch=-1, topics=(named,),
        isolation_level=READ_COMMITTED if read.committed_only else READ_UNCOMMITTED,
    )  # fmt: skip
    return encode_request(message, version, OURS, client_id)


def read_response(frame: bytes, version: int) -> Fetched | None:
    """What the broker has responded; None: nothing, because of a quota.

    A broker that throttles responds to a Fetch at once and without partitions, and reads the connection's next request
    when the throttle time is over (KIP-219).

    Raises:
        UnreadableError: it is no response to a read.
    """
    try:
        message = decode_response(FetchResponse, frame, version).message
    except CodecError as error:
        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    if message.error_code:
        return Fetched(message.error_code)
    if not message.responses and message.throttle_time_ms > 0:
        return None
    if len(message.responses) != 1 or len(message.responses[0].partitions) != 1:
        raise UnreadableError(ErrorCode.UNKNOWN_SERVER_ERROR)
    one = message.responses[0].partitions[0]
    return Fetched(
        one.error_code,
        one.records if one.records is not None else b"",
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        one.aborted_transactions or (),
    )
