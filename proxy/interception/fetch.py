"""The way of a Fetch response through interceptors: `on_consume`.

Only batches that an interceptor changes are written anew; all others are the broker's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from kafka_sidecar.codec.apis import ApiKey, ErrorCode, response_header_version
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import decode, encode, first_version, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.interception.fetched_partition import Reading, TooLongError, consumed
from kafka_sidecar.proxy.interception.hidden_offsets import At
from kafka_sidecar.proxy.interception.services import Surroundings
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Hold, Step
from kafka_sidecar.proxy.relay.frames import LENGTH, framed
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE, in_thread

OLDEST = 4  # version that interceptors can read: records of older ones carry no headers (KIP-82)
FIRST_WITH_IDS = first_version(FetchTopic, "topic_id")
VIEWED_FROM = 128 << 10  # bytes of a response from which on views of its records are cheaper than copies
BYTES_AT_ONCE = 64 << 10  # of compressed records that are looked into while others wait
READ_COMMITTED = 1
NOT_READ = FetchResponse()
NO_ID = b""  # of a cluster that has none: its topics are told by their names

Index = tuple[int, int]  # of the topic in the response, of the partition in the topic


@dataclass(slots=True)
class InterceptedFetch(Exchange):
    """One Fetch request and its response."""

    chains: Callable[[str], Consumers | None]  # by topic
    around: Surroundings
    client: Client
    version: int
    _context: Context | None = None
    _holds: bool = False  # the client must not be shown control batches of ours
    _isolation: int = 0
    _asked: dict[tuple[str, int], At] = field(default_factory=dict)  # where the client reads, if that holds
    _frame: bytes = b""
    _body: int = 0
    _response: FetchResponse = NOT_READ
    _changed: dict[Index, PartitionData] = field(default_factory=dict)
    _done_with: set[Index] = field(default_factory=set)
    _ahead_in: set[tuple[str, int]] = field(default_factory=set)  # where the broker is asked for what comes behind
    _unsure: dict[str, list[Index]] = field(default_factory=dict)  # answers that hang on what the topic has hidden

    @property
    def wants_response(self) -> bool:
        return True

    def request(self, frame: bytes) -> Step:
        """Raises CodecError."""
        _, at = decode_request_header(frame, LENGTH.size)
        request, _ = decode(FetchRequest, frame, self.version, at)
        self._isolation = request.isolation_level
        self._context = self.around.context(self.client, self.version)
        # A session that goes on does not say where it reads.
        self._holds = request.session_epoch <= 0 and self.around.holds(self.client, self.version)
        if not self._holds:
            return frame
        ahead = self._ahead(request)
        if ahead is request:
            return frame
        return framed(frame[LENGTH.size : at], encode(ahead, self.version))

    def response(self, frame: bytes) -> bytes | Hold:
        """Raises CodecError."""
        header_version = response_header_version(ApiKey.FETCH, self.version)
        _, self._body = decode(ResponseHeader, frame, header_version, LENGTH.size)
        data = frame if len(frame) < VIEWED_FROM else memoryview(frame)
        self._frame = frame
        self._response, _ = decode(FetchResponse, data, self.version, self._body)
        return self._name_topics()

    def _ahead(self, request: FetchRequest) -> FetchRequest:
        """The request, for what comes behind records that are known to be hidden."""
        progress, topics = self.around.progress, []
        for topic in request.topics:
            by_id = self.version >= FIRST_WITH_IDS
            name = (self.around.name_of(topic.topic_id) if by_id else topic.topic) or ""
            partitions = []
            for one in topic.partitions:
                at = At(
                    self.client.client_id, self.client.principal, self._isolation, name, one.partition, one.fetch_offset
                )
                self._asked[name, one.partition] = at
                following = progress.next(at)
                if following != one.fetch_offset:
                    self._ahead_in.add((name, one.partition))
                partitions.append(replace_fields(one, fetch_offset=following))
            topics.append(replace_fields(topic, partitions=tuple(partitions)))
        return replace_fields(request, topics=tuple(topics)) if self._ahead_in else request

    def _name(self, at: int) -> str | None:
        topic = self._response.responses[at]
        return self.around.name_of(topic.topic_id) if self.version >= FIRST_WITH_IDS else topic.topic

    def _name_topics(self, asked: bool = False) -> bytes | Hold:
        """Since v13 topics are named by their ids alone."""
        topics = self._response.responses
        unknown = [at for at, topic in enumerate(topics) if topic.partitions and self._name(at) is None]
        if unknown and not asked:
            ids = [topics[at].topic_id for at in unknown]
            return Hold(partial(self.around.learn, ids), partial(self._name_topics, asked=True))
        for at in unknown:  # its records must not pass unseen: the client asks for metadata and reads again
            for index, one in enumerate(topics[at].partitions):
                if one.records:
                    self._changed[at, index] = replace_fields(one, error_code=ErrorCode.UNKNOWN_TOPIC_ID, records=b"")
        return self._intercept()

    def _intercept(self) -> bytes | Hold:
        around = self.around
        if around.pace.must_rest:
            return Hold(around.pace.rest, self._intercept)
        chains = {at: chain for at in range(len(self._response.responses)) if (chain := self._chain(at)) is not None}
        size = sum(len(one.records or b"") for at in chains for one in self._response.responses[at].partitions)
        if size <= BYTES_AT_ONCE:
            began = perf_counter()
            try:
                self._consume(chains, min(around.limit, INFLATED_AT_ONCE))
                return self._sure()
            except TooLongError:
                pass
            finally:
                around.pace.spent_s += perf_counter() - began
        return Hold(partial(in_thread, partial(self._consume, chains, around.limit)), self._sure)

    def _chain(self, at: int) -> Consumers | None:
        name = self._name(at)
        return self.chains(name) if name is not None else None

    def _consume(self, chains: dict[int, Consumers], limit: int) -> None:
        """Note what becomes of each partition. Raises TooLongError where it must be done in a thread."""
        assert self._context is not None
        for at, chain in chains.items():
            name = self._name(at) or ""
            for index, one in enumerate(self._response.responses[at].partitions):
                if (at, index) in self._done_with:
                    continue  # before it was too long
                if not one.records:
                    self._answered_empty((at, index), name, one)
                    continue
                reading = Reading(
                    chain, self._context, name, one.partition_index, self.around.observed, limit,
                    limit == self.around.limit,
                )  # fmt: skip
                aborted = (one.aborted_transactions or ()) if self._isolation == READ_COMMITTED else None
                asked = self._asked.get((name, one.partition_index))
                left = consumed(reading, one.records, aborted, not self._holds, asked.offset if asked else 0)
                if left.records is not None:
                    self._changed[at, index] = replace_fields(one, records=left.records)
                    if left.following is not None and not left.records:
                        self._hide(at, index, (name, one.partition_index), left.following)
                    elif left.refused and not left.records:  # the log says why; clients try again
                        code = ErrorCode.UNKNOWN_SERVER_ERROR
                        self._changed[at, index] = replace_fields(one, records=b"", error_code=code)
                if (name, one.partition_index) in self._ahead_in:
                    self._unsure.setdefault(name, []).append((at, index))
                self._done_with.add((at, index))

    def _answered_empty(self, place: Index, name: str, one: PartitionData) -> None:
        asked, progress = self._asked.get((name, one.partition_index)), self.around.progress
        if asked is None or progress.next(asked) == asked.offset:
            return
        if one.error_code:
            progress.forget(asked)
        if one.error_code in {ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE}:  # not the one that the client asked for
            self._changed[place] = replace_fields(
                one, error_code=ErrorCode.NONE, records=b"", high_watermark=asked.offset
            )

    def _hide(self, at: int, index: int, place: tuple[str, int], following: int) -> None:
        """Answer as if the log ended where the client reads, and remember where to go on."""
        asked = self._asked.get(place)
        if asked is not None:
            self.around.progress.hidden(asked, following)
            self._changed[at, index] = replace_fields(self._changed[at, index], high_watermark=asked.offset)
            self._unsure.setdefault(place[0], [])

    def _sure(self) -> bytes | Hold:
        return Hold(self._confirm, self._done) if self._unsure else self._done()

    async def _confirm(self) -> None:
        """Of a topic that was made again nothing is known to be hidden: what is behind is not what the client wants."""
        try:
            ids = await self.around.topic_ids(self._unsure)
        except (OSError, CodecError):  # as where brokers demand SASL: or the client would stand still for ever
            return
        for name, places in self._unsure.items():
            if not self.around.progress.is_still(name, ids.get(name, NO_ID)):
                for at, index in places:
                    one = self._response.responses[at].partitions[index]
                    offset = self._asked[name, one.partition_index][-1]
                    self._changed[at, index] = replace_fields(one, records=b"", high_watermark=offset)

    def _done(self) -> bytes:
        """What goes to the client."""
        frame, self._frame = self._frame, b""
        if self._changed:
            topics = tuple(
                replace_fields(
                    topic,
                    partitions=tuple(self._changed.get((at, index), one) for index, one in enumerate(topic.partitions)),
                )
                for at, topic in enumerate(self._response.responses)
            )
            body = encode(replace_fields(self._response, responses=topics), self.version)
            frame = framed(frame[LENGTH.size : self._body], body)
        self._response = NOT_READ
        self._changed.clear()
        return frame
