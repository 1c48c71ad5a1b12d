"""Attacks on what was opened once and is used later: sessions, pages, patterns of groups, logins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from confluent_kafka.admin import AdminClient, NewTopic

from hostile.apis import RULES
from hostile.attacks import Attack, Place, sends
from hostile.logins import token
from hostile.wire import Address, connect, converse
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_sidecar.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_sidecar.codec.messages.share_fetch import ShareFetchRequest

FETCH = 12  # the version
HIDDEN = 500  # topics, of ten partitions each


def frames(messages: Iterable[Message], version: int) -> bytes:
    return b"".join(encode_request(one, version, number, "hostile") for number, one in enumerate(messages))


def guess(session: int, epoch: int = 1, topics: tuple[FetchTopic, ...] = ()) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, session_id=session, session_epoch=epoch, topics=topics
    )


def guesses(count: int) -> bytes:
    return frames(map(guess, range(1, count + 1)), FETCH)


def members(count: int) -> bytes:
    """Share sessions of others, whose members everybody may know."""
    each = (ShareFetchRequest(group_id="honest", member_id=f"m{at}", share_session_epoch=1) for at in range(count))
    return frames(each, 1)


def patterns(count: int) -> bytes:
    """Long ones, in which what all names begin with is looked for."""
    one = ConsumerGroupHeartbeatRequest(group_id="honest", member_id="m", subscribed_topic_regex="\\-" * 15_000)
    return frames([one] * count, 1)


def logins(count: int) -> bytes:
    return token(b"\0honest\0wrong") * count


def ask(address: Address, message: Message, version: int) -> bytes:
    """The response frame."""
    with connect(address) as client:
        client.sendall(encode_request(message, version, 1, "hostile"))
        return read(client.recv)


def read(receive: Callable[[int], bytes]) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        if not (chunk := receive(1 << 20)):
            break
        data += chunk
    return data


def use_another_ones(place: Place) -> str:
    """Goes on with a session of another connection; then guesses those of others."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic="honest", partitions=(partition,)),)
    with connect(place.kafka) as owner:
        owner.sendall(encode_request(guess(0, 0, topics), FETCH, 1, "owner"))
        session = decode_response(FetchResponse, read(owner.recv), FETCH).message.session_id
        found = decode_response(FetchResponse, ask(place.kafka, guess(session), FETCH), FETCH).message
        converse(place.kafka, guesses(30_000), place.limit_s, quiet_s=2.0)
    return f"a session of another connection: error {found.error_code}, {len(found.responses)} topics"


def turn_pages(place: Place) -> str:
    """Asks for a page of one partition, before thousands of topics that may not be described."""
    admin = AdminClient({"bootstrap.servers": place.direct})
    for future in admin.create_topics([NewTopic(f"team-0-{at}", 10) for at in range(HIDDEN)]).values():
        future.exception(60)
    for _ in range(100):
        if sum(name.startswith("team-0-") for name in admin.list_topics(timeout=10).topics) >= HIDDEN:
            break
        time.sleep(0.1)
    start = Cursor(topic_name="orders", partition_index=0)
    page = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=1, cursor=start)
    frame = ask(place.kafka, page, 0)
    cursor = decode_response(DescribeTopicPartitionsResponse, frame, 0).message.next_cursor
    converse(place.kafka, frames([page] * 200, 0), place.limit_s, quiet_s=2.0)
    for future in admin.delete_topics([f"team-0-{at}" for at in range(HIDDEN)]).values():
        future.exception(60)
    return f"the cursor after one partition: {cursor.topic_name if cursor is not None else None}"


SESSIONS = (
    Attack("61: rules: another one's fetch session, and 30,000 guesses", lambda: use_another_ones, more=RULES),
    Attack("62: rules: 30,000 share sessions of others", sends(partial(members, 30_000)), more=RULES),
    Attack("63: rules: 200 pages of one partition, 5,000 hidden", lambda: turn_pages, more=RULES),
    Attack("64: rules: 2,000 groups with patterns of 30 KB", sends(partial(patterns, 2_000)), more=RULES),
    Attack("65: 50,000 logins in one go, at a broker without logins", sends(partial(logins, 50_000)), more=RULES),
)
