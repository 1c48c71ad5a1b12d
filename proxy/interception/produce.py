"""The way of a Produce request through interceptors: `on_send` as it goes, `on_acknowledgement` as it is answered.

They see what the policies have let pass (design D8), and hear of what these refused. A batch that cannot be read, or
whose checksum is wrong, goes on as it came: the broker says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from time import perf_counter

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import changed, decode, encode
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, resealed
from kafka_sidecar.interceptors.contract import Context, SendError
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.proxy.exchanges import Answer, Client, Exchange, Hold, Last, Step
from kafka_sidecar.proxy.interception.acknowledgements import Place, Sent, answers
from kafka_sidecar.proxy.interception.surroundings import Surroundings
from kafka_sidecar.proxy.offload import INFLATED_AT_ONCE, in_thread, takes_long
from kafka_sidecar.proxy.validation.structure import fault_of, only_batch

LENGTH = Struct(">i")
FIRST_WITH_IDS = 13
VIEWED_FROM = 128 << 10  # bytes of a request from which on views of its records are cheaper than copies
RECORDS_AT_ONCE = 1000  # that a batch may have to be intercepted while others wait
TOLD_AT_ONCE = 10_000  # acknowledgements
API = "Produce"
NOT_READ = ProduceRequest()


@dataclass(slots=True)
class Part:
    """One partition whose records are intercepted."""

    place: Place
    data: PartitionProduceData
    batch: Batch
    topic: str
    chain: Producers
    done: bool = False
    new: bytes | None = None  # what goes to the broker; None: what came


@dataclass(slots=True)
class InterceptedProduce(Exchange):
    """One Produce request and its response."""

    chains: Callable[[str], Producers | None]  # by topic
    around: Surroundings
    client: Client
    version: int
    inner: Exchange | None = None  # who validates it
    _frame: bytes = b""
    _request: ProduceRequest = NOT_READ  # what goes to the broker
    _context: Context | None = None
    _finish: Callable[[bytes], Step] = field(default=lambda frame: frame)
    _sent: dict[Place, Sent] = field(default_factory=dict)  # whose interceptors have not been told yet
    _parts: list[Part] = field(default_factory=list)

    @property
    def wants_response(self) -> bool:
        return bool(self._sent) or (self.inner is not None and self.inner.wants_response)

    def request(self, frame: bytes) -> Step:
        """Raises CodecError."""
        self._frame, self._request = frame, self._read(frame)
        self._context = self.around.context(self.client, self.version, transactional_id=self._request.transactional_id)
        return self._name_topics()

    def response(self, frame: bytes) -> bytes | Hold:
        """Raises CodecError."""
        step = self.inner.response(frame) if self.inner is not None and self.inner.wants_response else frame
        if isinstance(step, Hold):
            raise CodecError("validation holds no response")
        told = partial(self._acknowledge, step)
        if sum(sent.count for sent in self._sent.values()) > TOLD_AT_ONCE:
            return Hold(partial(in_thread, told), lambda: step)
        told()
        return step

    def lost(self, why: str) -> None:
        self._fail(SendError(why))
        if self.inner is not None:
            self.inner.lost(why)

    def _read(self, frame: bytes) -> ProduceRequest:
        _, at = decode_request_header(frame, LENGTH.size)
        return decode(ProduceRequest, frame if len(frame) < VIEWED_FROM else memoryview(frame), self.version, at)[0]

    def _name_topics(self, asked: bool = False) -> Step:
        """Since v13 topics are named by their ids alone."""
        ids = [topic.topic_id for topic in self._request.topic_data] if self.version >= FIRST_WITH_IDS else []
        if not asked and any(self.around.name_of(one) is None for one in ids):
            return Hold(partial(self._learn, ids), partial(self._name_topics, asked=True))
        for part in self._wanted(self._request):
            if part.chain.acknowledge:
                count, most = part.batch.header.count, len(part.batch.data)
                self._sent[part.place] = Sent(part.topic, part.place[1], part.chain, count, most)
        return self._judged(self._frame if self.inner is None else self.inner.request(self._frame))

    async def _learn(self, topic_ids: list[bytes]) -> None:
        with suppress(OSError, CodecError):
            await self.around.learn_names(topic_ids)

    def _wanted(self, request: ProduceRequest) -> Iterator[Part]:
        """The partitions of topics that have interceptors, as far as they can be read."""
        for topic in request.topic_data:
            by_id = self.version >= FIRST_WITH_IDS
            name = self.around.name_of(topic.topic_id) if by_id else topic.name
            chain = self.chains(name) if name is not None else None
            if name is None or chain is None:
                continue
            for data in topic.partition_data:
                batch = only_batch(data.records)
                if isinstance(batch, Batch):
                    yield Part((topic.topic_id if by_id else name, data.index), data, batch, name, chain)

    def _judged(self, step: Step) -> Step:
        """Go on with what the policies have left."""
        left = step
        match step:
            case Hold():
                return Hold(step.wait, lambda: self._judged(step.then()))
            case Answer():
                self._acknowledge(step.frame)
                return step
            case Last():
                left, self._finish = step.frame, lambda frame: Last(frame, step.cause, step.detail)
        assert isinstance(left, bytes)
        if left is not self._frame:
            self._frame, self._request = left, self._read(left) if left else NOT_READ
        self._parts = [part for part in self._wanted(self._request) if part.chain.looks_inside]
        return self._intercept()

    def _intercept(self) -> Step:
        """Go on with the first part that is not done: here, or in a thread where that would keep all others waiting."""
        around = self.around
        for part in self._parts:
            if part.done:
                continue
            if around.pace.must_rest:
                return Hold(around.pace.rest, self._intercept)
            if not takes_long(part.batch, RECORDS_AT_ONCE):
                began = perf_counter()
                self._send(part, min(around.limit, INFLATED_AT_ONCE))
                around.pace.spent_s += perf_counter() - began
            if not part.done:
                return Hold(partial(in_thread, partial(self._send, part, around.limit)), self._intercept)
        return self._done()

    def _send(self, part: Part, limit: int) -> None:
        """Let the interceptors see the records; undone where they are more than ``limit`` bytes and may be more."""
        batch, around = part.batch, self.around
        try:
            if fault_of(batch) is not None:
                return self._leave(part, "unreadable")
            records = batch.records(limit)
        except BatchTooLargeError:
            return self._leave(part, "too_large") if limit == around.limit else None
        except CodecError:
            return self._leave(part, "unreadable")
        assert self._context is not None
        new = part.chain.send(self._context, part.topic, part.place[1], records)
        if new is not records:
            part.new = resealed(batch, new)
            if len(part.new) > max(around.message_max_bytes, len(batch.data)):
                part.new, new = None, records
                around.observed.left_alone(API, "would_be_too_large", part.topic)
        if (sent := self._sent.get(part.place)) is not None:
            sent.details = part.chain.details(new)
        around.observed.batches[API, "unchanged" if part.new is None else "changed"] += 1
        part.done = True
        return None

    def _leave(self, part: Part, why: str) -> None:
        self.around.observed.left_alone(API, why, part.topic)
        part.done = True

    def _done(self) -> Step:
        """What goes to the broker."""
        new = {id(part.data): part.new for part in self._parts if part.new is not None}
        frame = self._with(new) if new else self._frame
        step = self._finish(frame)
        now, began = self.around.clock(), perf_counter()
        going = {part.place for part in self._wanted(self._request)}
        for place, sent in self._sent.items():
            sent.sent_at, sent.began = now, began
            if isinstance(step, Last) and place not in going:
                sent.fail(self._told, SendError(step.detail))
            elif not self._request.acks:
                sent.acknowledge(self._told, None)
        if isinstance(step, Last) or not self._request.acks:
            self._sent.clear()
        self._parts.clear()
        self._frame, self._request = b"", NOT_READ  # the broker may take its time: let go of all records
        return step

    @property
    def _told(self) -> Context:
        assert self._context is not None
        return self._context

    def _with(self, new: dict[int, bytes]) -> bytes:
        topics = []
        for topic in self._request.topic_data:
            data = tuple(changed(one, records=new[id(one)]) if id(one) in new else one for one in topic.partition_data)
            topics.append(changed(topic, partition_data=data))
        body = encode(changed(self._request, topic_data=tuple(topics)), self.version)
        header = self._frame[LENGTH.size : decode_request_header(self._frame, LENGTH.size)[1]]
        return b"".join((LENGTH.pack(len(header) + len(body)), header, body))

    def _acknowledge(self, frame: bytes) -> None:
        """Tell the interceptors what the client is told. Raises CodecError."""
        sent, self._sent = self._sent, {}
        told = answers(frame, self.version, self.version >= FIRST_WITH_IDS) if sent else {}
        for place, one in sent.items():
            if place in told:
                one.acknowledge(self._told, told[place])
            else:
                one.fail(self._told, SendError("the answer does not name the partition"))

    def _fail(self, error: SendError) -> None:
        sent, self._sent = self._sent, {}
        for one in sent.values():
            one.fail(self._told, error)
