"""The way of a Produce request through interceptors: `on_send` as it goes, `on_acknowledgement` as it is answered.

They see what the policies have let pass (design D8), and hear of what these refused. A batch that cannot be read, or
whose checksum is wrong, goes on as it came: the broker says what is wrong with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeVar

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, reseal
from kafka_sidecar.interceptors.contract import Context, SendError
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.proxy.interception.acknowledgements import Place, Sent, answers, records_in
from kafka_sidecar.proxy.interception.services import Surroundings
from kafka_sidecar.proxy.relay.exchange import Answer, Client, Exchange, Hold, Last, Step
from kafka_sidecar.proxy.relay.frames import LENGTH, framed
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE, in_thread, submit, takes_long
from kafka_sidecar.proxy.validation.structure import fault_of, only_batch

FIRST_WITH_IDS = 13
VIEWED_FROM = 128 << 10  # bytes of a request from which on views of its records are cheaper than copies
RECORDS_AT_ONCE = 1000  # that a batch may have to be intercepted while others wait
TOLD_AT_ONCE = 10_000  # acknowledgements
API = "Produce"
NOT_READ = ProduceRequest()
NOT_NAMED = SendError("the answer does not name the partition")
S = TypeVar("S", bound=Step)


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
        try:
            step = self.inner.response(frame) if self.inner is not None and self.inner.wants_response else frame
            if isinstance(step, Hold):
                raise CodecError("validation holds no response")
            told = self._answered(step)
        except CodecError as error:
            self._fail(SendError(f"the answer cannot be read: {error}"))
            raise
        return self._then(told, step)

    def lost(self, why: str) -> None:
        told = partial(self._fail, SendError(why))
        if self._is_much_to_tell:
            submit(told)
        else:
            told()
        if self.inner is not None:
            self.inner.lost(why)

    def _read(self, frame: bytes) -> ProduceRequest:
        _, at = decode_request_header(frame, LENGTH.size)
        return decode(ProduceRequest, frame if len(frame) < VIEWED_FROM else memoryview(frame), self.version, at)[0]

    def _name_topics(self, asked: bool = False) -> Step:
        """Since v13 topics are named by their ids alone."""
        ids = [topic.topic_id for topic in self._request.topic_data] if self.version >= FIRST_WITH_IDS else []
        if not asked and any(self.around.name_of(one) is None for one in ids):
            return Hold(partial(self.around.learn, ids), partial(self._name_topics, asked=True))
        self._parts = list(self._wanted(self._request))
        for part in self._parts:
            if part.chain.wants_acknowledgements:
                count = records_in(part.batch, self.around.limit)
                self._sent[part.place] = Sent(part.topic, part.place[1], part.chain, count)
        return self._judged(self._frame if self.inner is None else self.inner.request(self._frame))

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
                return self._then(self._answered(step.frame), step)
            case Last():
                left, self._finish = step.frame, lambda frame: Last(frame, step.cause, step.detail)
        assert isinstance(left, bytes)
        if left is not self._frame:
            self._frame, self._request = left, self._read(left) if left else NOT_READ
            self._parts = list(self._wanted(self._request))
        return self._intercept()

    def _intercept(self) -> Step:
        """Go on with the first part that is not done: here, or in a thread where that would keep all others waiting."""
        around = self.around
        for part in self._parts:
            if part.done or not part.chain.needs_records:
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
            part.new = reseal(batch, new)
            if len(part.new) > max(around.message_max_bytes, len(batch.data)):
                part.new, new = None, records
                around.observed.left_alone(API, "would_be_too_large", part.topic)
        if (sent := self._sent.get(part.place)) is not None:
            sent.details = part.chain.collect_details(new)
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
        self._note_time()
        told = None
        if isinstance(step, Last):
            going = {part.place for part in self._parts}
            told = partial(self._tell, dict.fromkeys(going), SendError(step.detail))
        elif not self._request.acks:
            told = partial(self._tell, dict.fromkeys(self._sent), NOT_NAMED)
        self._parts.clear()
        self._frame, self._request = b"", NOT_READ  # the broker may take its time: let go of all records
        return step if told is None else self._then(told, step)

    def _note_time(self) -> None:
        now, began = self.around.clock(), perf_counter()
        for sent in self._sent.values():
            sent.sent_at, sent.began = now, began

    @property
    def _told(self) -> Context:
        assert self._context is not None
        return self._context

    def _with(self, new: dict[int, bytes]) -> bytes:
        topics = []
        for topic in self._request.topic_data:
            data = tuple(
                replace_fields(one, records=new[id(one)]) if id(one) in new else one for one in topic.partition_data
            )
            topics.append(replace_fields(topic, partition_data=data))
        header = self._frame[LENGTH.size : decode_request_header(self._frame, LENGTH.size)[1]]
        return framed(header, encode(replace_fields(self._request, topic_data=tuple(topics)), self.version))

    def _answered(self, frame: bytes) -> Callable[[], None]:
        """What is to be told now that the client gets this answer. Raises CodecError."""
        said = answers(frame, self.version, self.version >= FIRST_WITH_IDS) if self._sent else {}
        return partial(self._tell, said, NOT_NAMED)

    @property
    def _is_much_to_tell(self) -> bool:
        return sum(sent.count for sent in list(self._sent.values())) > TOLD_AT_ONCE  # a thread may be telling

    def _then(self, tell: Callable[[], None], step: S) -> S | Hold:
        """Tell, in a thread if it is much, and go on with ``step``."""
        if self._is_much_to_tell:
            # At once: if the connection ends before anybody waits, all has been said of these records even so.
            return Hold(partial(_over, submit(tell)), lambda: step)
        tell()
        return step

    def _tell(self, said: Mapping[Place, PartitionProduceResponse | None], otherwise: SendError) -> None:
        """Tell the interceptors what was said of each batch, and of those of which nothing was."""
        for place, sent in self._untold():
            if place in said:
                sent.acknowledge(self._told, said[place])
            else:
                sent.fail(self._told, otherwise)

    def _fail(self, error: SendError) -> None:
        self._tell({}, error)

    def _untold(self) -> Iterator[tuple[Place, Sent]]:
        """Each once, even where the connection ends while a thread tells."""
        for place in list(self._sent):
            if (sent := self._sent.pop(place, None)) is not None:
                yield place, sent


async def _over(telling: Future[object]) -> None:
    """Who no longer waits does not end it."""
    await asyncio.shield(asyncio.wrap_future(telling))
