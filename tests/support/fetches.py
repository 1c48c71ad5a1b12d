"""Fetch requests and responses as kio writes and reads them, and exchanges with interceptors."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_reader

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange, FetchExchanges
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, Limits
from kafka_sidecar.proxy.features.interception.consume_stage import ConsumeStage
from support import oracle
from support.client import FakeClient
from support.driven import Driven, Step
from support.interception import Intercepting, values_in
from support.produce_requests import topic_id

VERSIONS = range(4, 19)
FIRST_WITH_SESSIONS, FIRST_FLEXIBLE, FIRST_WITH_IDS = 7, 12, 13
CORRELATION_ID = 7
MAX_WAIT = datetime.timedelta(milliseconds=500)
HEAD_AT = 12  # of the client id
KAFKA_GO = FakeClient(client_id="go", client_software=None)  # would show control batches

OffsetsByTopic = Mapping[str, Mapping[int, int]]  # by partition
Place = tuple[str, int]  # topic and partition


def fetch_request(
    version: int, topics: OffsetsByTopic, isolation_level: int = 0, epoch: int = -1, session: int = 0
) -> bytes:
    data = [
        {
            "topic": name,
            "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition": index,
                    "fetch_offset": offset,
                    "partition_max_bytes": 1 << 20,
                    "log_start_offset": -1,
                    "current_leader_epoch": 4,
                    "last_fetched_epoch": -1,
                }
                for index, offset in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]
    request = oracle.request(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=MAX_WAIT,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_id=session,
        session_epoch=epoch,
        topics=data,
        rack_id="r",
    )
    return oracle.request_frame(request, CORRELATION_ID)


def request_in(version: int, frame: Step, key: int = ApiKey.FETCH) -> Any:
    """The request of a frame."""
    assert isinstance(frame, bytes)
    kind = load_request_schema(key, version)
    _, size = entity_reader(kind.__header_schema__)(frame[4:], 0)
    return entity_reader(kind)(frame[4 + size :], 0)[0]


def offsets_in(version: int, frame: Step) -> dict[str, dict[int, int]]:
    """What a request asks for."""
    request = request_in(version, frame)
    return {
        _name_of(version, topic): {one.partition: one.fetch_offset for one in topic.partitions}
        for topic in request.topics
    }


def partitions_in(version: int, frame: Step) -> dict[Place, Any]:
    """The partitions of a response."""
    assert isinstance(frame, bytes)
    correlation_id, response = oracle.read_response(ApiKey.FETCH, version, frame)
    assert correlation_id == CORRELATION_ID
    return {
        (_name_of(version, topic), one.partition_index): one for topic in response.responses for one in topic.partitions
    }


def values_by_partition(version: int, frame: Step) -> dict[Place, list[tuple[int, bytes | None]]]:
    return {place: values_in(one.records) for place, one in partitions_in(version, frame).items()}


def _name_of(version: int, topic: Any) -> str:
    if version < FIRST_WITH_IDS:
        return str(topic.topic)
    assert isinstance(topic.topic_id, uuid.UUID)
    return topic.topic_id.bytes.lstrip(b"\1").decode()


def fetch_exchanges(intercepting: Intercepting, limits: Limits = DEFAULT_LIMITS) -> FetchExchanges:
    catalog, services = intercepting.catalog, intercepting.services
    stage = ConsumeStage(catalog.consumers, catalog.fail_closed, services)
    return FetchExchanges([stage], services.name_of, limits)


def begin_fetch(
    intercepting: Intercepting, version: int = 12, client: FakeClient | None = None, turns: bool = False
) -> Driven:
    """An exchange that has not seen its request yet."""
    stage = ConsumeStage(intercepting.catalog.consumers, intercepting.catalog.fail_closed, intercepting.services)
    run = stage.start(client or intercepting.client, version)
    return Driven(FetchExchange([run], intercepting.services.name_of, version), turns)


def respond(
    intercepting: Intercepting,
    version: int,
    frame: bytes,
    *,
    isolation_level: int = 0,
    client: FakeClient | None = None,
) -> Step:
    """What the client gets, or what is needed first."""
    exchange = begin_fetch(intercepting, version, client)
    exchange.request(fetch_request(version, {"orders": {0: 0}}, isolation_level))
    return exchange.response(frame)
