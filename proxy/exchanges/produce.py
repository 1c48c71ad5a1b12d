"""A Produce request and its response: opened once, taken through the stages of design D8, closed once.

    frame --> spans --> topics named --> each batch: validate, intercept, split, count --> spliced frame --> broker
    client <-- response with what was rejected <-- count, split, intercept, validate <-- broker's response

What a stage rejects is cut out of the frame, what it changes is put in its place; every other byte stays (D1). One
partition's batch is rejected or accepted as a whole, the other partitions are forwarded (KIP-467, D7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple, Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import (
    Edit,
    OpenRequest,
    decode_response,
    edits_without,
    encode_response,
    open_request,
    records_field,
    splice,
)
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.glance import glance_produce
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from kafka_sidecar.codec.records import Batch, BatchHeader, BatchTooLargeError, Records, batches
from kafka_sidecar.codec.records.log_validator import InvalidBatch, cut_single_batch
from kafka_sidecar.codec.scan import PartitionSpan, ProduceSpans, TopicSpan, find_duplicate, scan_produce
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import TURN, Steps, Work
from kafka_sidecar.proxy.exchanges.limits import (
    DEFAULT_LIMITS,
    MAX_INLINE_ELEMENTS,
    PARTITIONS_PER_TURN,
    Guard,
    Limits,
    duplicate_partition,
    offload,
)
from kafka_sidecar.proxy.exchanges.messages import resolve
from kafka_sidecar.proxy.exchanges.produce_response import (
    PartitionKey,
    PartitionRejection,
    RejectedTopics,
    Results,
    name_rejected,
    with_rejected,
)
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT, read_head
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    FindsLarge,
    Forward,
    Last,
    Look,
    Outcome,
    Pass,
    Respond,
    StagedExchange,
)

FIRST_FLEXIBLE = ProduceRequest.declaration_.first_flexible
FIRST_WITH_IDS = first_version(TopicProduceData, "topic_id")
FIRST_OF_FORMAT_2_ONLY = 3  # before, records may be of the formats 0 and 1, which cannot be validated or intercepted
OLD_FORMAT, OLD_FORMAT_BEFORE = int(ErrorCode.INVALID_RECORD), int(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
MAX_INLINE_TOPICS = 1000  # of which the stages are asked before the request is buffered


class Fallback(NamedTuple):
    """A change that is undone if it has made a batch too large."""

    run: TopicRun  # whose change it is
    undone: Callable[[], None]


class PartitionRecords:
    """What a request brings for one partition, as the stages before have left it. Inflated once at most.

    A stage that changes nothing calls nothing: only `replace` puts another batch in the place of the one that came.
    """

    __slots__ = (
        "_batch",
        "_before",
        "_max_records",
        "_new",
        "_records",
        "fallback",
        "index",
        "is_split",
        "is_validated",
        "key",
        "rejection",
        "span",
    )

    def __init__(
        self,
        key: str | bytes,
        span: PartitionSpan,
        batch: Batch | InvalidBatch,
        rejection: PartitionRejection | None,
        max_records: int = DEFAULT_LIMITS.max_records,
        is_split: bool = False,
        is_validated: bool = False,
    ) -> None:
        self.key = key  # the topic's name or id as the request has it
        self.index: int = span.index
        self.span = span
        self.rejection = rejection
        self.is_split = is_split  # where it is larger than its topic allows, by a stage that follows
        self.is_validated = is_validated  # a stage rejects it for what its records are
        self.fallback: Fallback | None = None
        self._batch = batch
        self._new: bytes | None = None
        self._before: tuple[Batch | InvalidBatch, bytes | None] = batch, None  # the fallback's change
        self._max_records = max_records
        self._records: Records | None = None

    @property
    def batch(self) -> Batch | InvalidBatch:
        """The batch that goes to the broker, unless a stage that follows replaces it."""
        return self._batch

    @property
    def new(self) -> bytes | None:
        """What goes to the broker; None: the bytes that came."""
        return self._new

    @property
    def valid_batch(self) -> Batch:
        """The batch, where it is not an `InvalidBatch`."""
        assert isinstance(self._batch, Batch)
        return self._batch

    @property
    def header(self) -> BatchHeader:
        batch = self._batch
        assert isinstance(batch, Batch)
        return batch.header

    def replace(self, batch: bytes, fallback: Fallback | None = None) -> None:
        """Send this batch instead. The stages that follow see it; ``fallback``: or the one before, if it is too large
        for them."""
        if fallback is not None:
            self._before, self.fallback = (self._batch, self._new), fallback
        (self._batch,) = batches(batch)
        self._new = batch
        self._records = None

    def fall_back(self) -> None:
        """Send the batch as it was before the change with a fallback."""
        self._batch, self._new = self._before
        self._records = self.fallback = self.rejection = None

    def records(self, limit: int) -> Records:
        """The records, inflated at the first call.

        Raises:
            BatchTooLargeError: they are more than ``limit`` bytes, or too many.
            CodecError: they cannot be read.
        """
        records = self._records
        if records is None:
            batch = self._batch
            assert isinstance(batch, Batch)
            self._records = records = batch.records(limit, self._max_records, True)  # as_sent
        elif len(records.payload) > limit:  # of a stage before, which may look at more, or in a thread
            raise BatchTooLargeError(f"the batch has more than {limit} bytes when decompressed")
        return records

    @property
    def size(self) -> int:
        """Bytes of the records, as far as they are inflated now."""
        return len(self._records.payload) if self._records is not None else 0

    def release(self) -> None:
        """Let go of the inflated records."""
        self._records = None


class TopicRun(Protocol):
    """One stage at work on one topic of a request."""

    __slots__ = ()

    splits: bool = False  # whether it makes a batch that is larger than its topic allows small enough, or rejects it
    validates: bool = False  # whether it rejects batches for what their records are, as policies do

    @property
    def needs_records(self) -> bool:
        """Whether batches may be inflated, which takes time."""
        ...

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        """All partitions of the topic, some at a time, before any batch of the request is looked into."""
        ...

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        """Do the stage's part: reject, change, remember. Steps where something is needed for that."""
        ...


class StageRun(FindsLarge, Protocol):
    """One stage at work on one request. Of what follows `admit` it defines what it needs to know."""

    @property
    def wants_response(self) -> bool:
        """Whether `answered` is to be called with the broker's response."""
        ...

    def open(self, request: OpenRequest, spans: ProduceSpans) -> Steps[PartitionRejection | None] | None:
        """The request has come whole. Steps where something is needed first; a rejection of all of it ends them."""
        ...

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicRun | PartitionRejection | None:
        """What the stage does with the topic's batches, if anything; a rejection is of all its partitions.

        ``topic`` is None where the cluster does not know the id; the id is zeros where the client names the topic.
        """
        ...

    def sent(self) -> None:
        """The request goes to the broker now, or is answered."""
        return

    def answered(self, results: Results) -> Steps[None] | None:
        """The response to the client, with what was rejected. Steps where there is much to do."""
        return None

    def unanswered(self, rejected: set[PartitionKey], why: str) -> Steps[None] | None:
        """The client gets no response (acks=0); these were rejected, the others sent."""
        return None

    def lost(self, why: str) -> Work | None:
        """No response comes, and it is not known what became of the records."""
        return None


class Starts(Protocol):
    """What a feature does with Produce requests."""

    def start(self, client: Client, version: int) -> StageRun:
        """Begin with a request of this client."""
        ...


class Stage(Starts, Protocol):
    """What a feature does with Produce requests for some topics."""

    @property
    def is_stable(self) -> bool:
        """Whether `applies` stays true or false for a topic until the configuration is reloaded."""
        ...

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        """Whether it may look into a request for these topics (name, id); the name may be unknown, no topics: all."""
        ...


class GuardStage(Guard, Starts, Protocol):
    """A first stage, of requests in which something is denied."""


class ProduceExchanges:
    """Decides which Produce requests are looked into. The stages are those of D8, in their order."""

    def __init__(
        self,
        stages: Sequence[Stage],
        name_of: Callable[[bytes], str | None],
        limits: Limits = DEFAULT_LIMITS,
        guards: Sequence[GuardStage] = (),
    ) -> None:
        self.stages = stages
        self.guards = guards
        self._name_of = name_of
        self._limits = limits

    def exchange(self, version: int) -> Begin:
        """What looks into requests of this version."""
        return partial(self.begin, version)

    def begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | Look | Pass | None:
        """As `exchange.Begin`, for one version."""
        named, end = glance_produce(data, at, size, version, self._limits.max_partitions)
        if len(named) > MAX_INLINE_TOPICS:
            named = ()  # the exchange asks for one after the other
        topics = [(self._name_of(key), key) if isinstance(key, bytes) else (key, NO_ID) for key in named]
        stages: list[Starts] = [stage for stage in self.stages if stage.applies(topics)]
        # Of several topics the records of the first would be part of the prefix.
        is_known = len(topics) == 1 and topics[0][0] is not None and all(stage.is_stable for stage in self.stages)
        if guards := self.guards:
            request_head = read_head(version, data, at)
            if denying := [one for one in guards if not named or not one.allows(client, request_head, named)]:
                stages = [*denying, *stages]
                is_known = False
        head = data[at + CLIENT_ID_AT : end] if is_known else b""
        if not stages:
            return Pass(head) if is_known else None
        start = partial(self._start, stages, version, client)
        return Look(head, start) if is_known else start()

    def _start(self, stages: Sequence[Starts], version: int, client: Client) -> ProduceExchange:
        return ProduceExchange([stage.start(client, version) for stage in stages], self._name_of, version, self._limits)


# Its index in the request, its partitions, what looks into them, and whether that may take time. A plain tuple: a named
# one takes three times as long.
AdmittedTopic = tuple[int, list[PartitionRecords], list[TopicRun], bool]


class ProduceExchange(StagedExchange[StageRun]):
    """One Produce request and its response."""

    __slots__ = ("_limits", "_name_of", "_partitions", "_rejected", "_rejections", "_version")

    def __init__(
        self,
        runs: Sequence[StageRun],
        name_of: Callable[[bytes], str | None],
        version: int,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._runs = runs
        self._limits = limits
        self._partitions = 0
        self._name_of = name_of
        self._version = version
        self._rejections: dict[tuple[int, int], PartitionRejection] = {}  # by index of topic and of partition
        self._rejected: RejectedTopics = ()

    def request(self, frame: bytes) -> Steps[Outcome]:
        opened = open_request(frame)
        spans = scan_produce(frame, opened.body_at, self._version, self._limits.max_partitions)
        if (twice := find_duplicate(spans)) is not None:
            raise duplicate_partition(*twice)
        for run in self._runs:
            if (steps := run.open(opened, spans)) is not None and (rejection := (yield from steps)) is not None:
                for at, topic in enumerate(spans.topics):
                    self._reject(at, topic, rejection)
                return (yield from self._close(opened, spans, []))
        if self._version >= FIRST_WITH_IDS:
            named = [topic.key for topic in spans.topics if topic.partitions]
            yield from resolve([key for key in named if isinstance(key, bytes)], self._name_of)
        edits: list[Edit] = []
        yield from self._run_stages(frame, spans, edits)
        if spans.acks and not self._rejections:
            return Forward(splice(frame, edits) if edits else frame, self._mark_sent())
        return (yield from self._close(opened, spans, edits))

    def _run_stages(self, frame: bytes, spans: ProduceSpans, edits: list[Edit]) -> Steps[None]:
        """Take each batch through the stages; what changes in the frame is added to ``edits``."""
        admitted = yield from self._admit_topics(frame, spans)
        passed = 0
        for topic_at, partitions, runs, needs_records in admitted:
            for at, partition in enumerate(partitions):
                passed += 1
                if needs_records or not passed % PARTITIONS_PER_TURN:
                    yield TURN
                for run in runs:
                    if (steps := run.batch(partition)) is not None:
                        yield from steps
                if (change := partition.fallback) is not None:
                    yield from _undo_if_too_large(partition, change, runs)
                if needs_records:
                    partition.release()
                self._settle(topic_at, at, partition, edits)

    def _settle(self, topic_at: int, at: int, partition: PartitionRecords, edits: list[Edit]) -> None:
        if partition.rejection is not None:
            self._rejections[topic_at, at] = partition.rejection
        elif partition.new is not None:
            new, span = records_field(partition.new, self._version >= FIRST_FLEXIBLE), partition.span
            edits.append((span.records_at, span.records_end, new))

    def _mark_sent(self) -> bool:
        """Whether the response has to be looked into."""
        wants_response = bool(self._rejections)
        for run in self._runs:
            run.sent()
            wants_response = wants_response or run.wants_response
        return wants_response

    def response(self, frame: bytes) -> Steps[bytes]:
        try:
            merge = partial(merge_response, frame, self._version, self._rejected)
            frame, results = merge() if self._partitions <= MAX_INLINE_ELEMENTS else (yield Work(merge))
        except CodecError as error:
            if (work := self.lost(f"the response cannot be read: {error}")) is not None:
                yield work
            raise
        yield from self._answered(results)
        return frame

    def lost(self, why: str) -> Work | None:
        works = [work for run in self._runs if (work := run.lost(why)) is not None]
        return Work(lambda: [work.run() for work in works], must_run=True) if works else None

    def _admit_topics(self, frame: bytes, spans: ProduceSpans) -> Steps[list[AdmittedTopic]]:
        """The topics that some stage looks into, each batch cut."""
        admitted: list[AdmittedTopic] = []
        for at, topic in enumerate(spans.topics):
            self._partitions += len(topic.partitions)
            runs, needs_records = self._runs_of(at, topic)
            if runs:
                cut: list[PartitionRecords] = []
                admitted.append((at, cut, runs, needs_records))
                for first in range(0, len(topic.partitions), PARTITIONS_PER_TURN):
                    if first:
                        yield TURN
                    cut += self._cut(frame, at, topic, first, runs)
            if not (at + 1) % PARTITIONS_PER_TURN:
                yield TURN
        return admitted

    def _runs_of(self, at: int, topic: TopicSpan) -> tuple[list[TopicRun], bool]:
        """What looks into the topic's batches, and whether that may take time."""
        key = topic.key
        name, topic_id = (self._name_of(key), key) if isinstance(key, bytes) else (key, NO_ID)
        runs: list[TopicRun] = []
        needs_records = False
        for run in self._runs:
            found = run.admit(name, topic_id, topic)
            if isinstance(found, PartitionRejection):
                self._reject(at, topic, found)
            elif found is not None:
                runs.append(found)
                needs_records = needs_records or found.needs_records
        return runs, needs_records

    def _cut(self, frame: bytes, at: int, topic: TopicSpan, first: int, runs: list[TopicRun]) -> list[PartitionRecords]:
        """Cut the batches of some of the topic's partitions, from ``first`` on."""
        key, view, rejection = topic.key, memoryview(frame), self._rejections.get((at, first))
        old_format = OLD_FORMAT_BEFORE if self._version < FIRST_OF_FORMAT_2_ONLY else OLD_FORMAT
        is_split = is_validated = False
        for run in runs:  # half as long as any() of a generator
            is_split, is_validated = is_split or run.splits, is_validated or run.validates
        cut: list[PartitionRecords] = []
        for span in topic.partitions[first : first + PARTITIONS_PER_TURN]:
            batch = cut_single_batch(view[span.records_start : span.records_end], old_format)
            max_records = self._limits.max_records
            cut.append(PartitionRecords(key, span, batch, rejection, max_records, is_split, is_validated))
        for run in runs:
            run.expect(cut)
        return cut

    def _reject(self, at: int, topic: TopicSpan, rejection: PartitionRejection) -> None:
        for index in range(len(topic.partitions)):
            self._rejections.setdefault((at, index), rejection)  # the first stage's stays

    def _close(self, opened: OpenRequest, spans: ProduceSpans, edits: list[Edit]) -> Steps[Outcome]:
        """Decide about a request of which something is rejected, or to which no response comes (acks=0)."""
        removed = edits_without(spans, self._version, self._rejections.keys())
        frame = splice(opened.frame, sorted(removed + edits, key=itemgetter(0))) if removed is not None else b""
        wants_response = self._mark_sent()
        if not spans.acks:
            return (yield from self._close_unanswered(frame, spans))
        self._rejected = name_rejected(spans, self._rejections)
        if frame:
            return Forward(frame, wants_response)
        build = partial(build_response, self._rejected, self._version, opened.correlation_id)
        response, results = yield from offload(build, self._partitions)
        yield from self._answered(results)
        return Respond(response)

    def _close_unanswered(self, frame: bytes, spans: ProduceSpans) -> Steps[Outcome]:
        """With acks=0 nothing can be rejected but by ending the connection, as a broker does."""
        why = ""
        if self._rejections:
            first = next(iter(self._rejections.values()))
            why = f"records that were sent with acks=0 are rejected: {first.message}"
        rejected = {(spans.topics[at].key, spans.topics[at].partitions[index].index) for at, index in self._rejections}
        for run in self._runs:
            if (steps := run.unanswered(rejected, why)) is not None:
                yield from steps
        return Last(frame, "rejected_without_acks", why) if self._rejections else Forward(frame)

    def _answered(self, results: Results) -> Steps[None]:
        for run in reversed(self._runs):
            if (steps := run.answered(results)) is not None:
                yield from steps


def merge_response(frame: bytes, version: int, rejected: RejectedTopics) -> tuple[bytes, Results]:
    """What the client gets in place of the broker's response: the same object where nothing was rejected.

    Raises:
        CodecError: the response cannot be read.
    """
    opened = decode_response(ProduceResponse, frame, version)
    if not rejected:
        return frame, _results(opened.message)
    response = with_rejected(opened.message, rejected, version)
    return opened.with_message(response), _results(response)


def build_response(rejected: RejectedTopics, version: int, correlation_id: int) -> tuple[bytes, Results]:
    """The response to a request of which every partition is rejected."""
    response = with_rejected(ProduceResponse(), rejected, version)
    return encode_response(response, version, correlation_id), _results(response)


def _results(response: ProduceResponse) -> Results:
    return {
        (topic.name or topic.topic_id, one.index): one
        for topic in response.responses
        for one in topic.partition_responses
    }


def _undo_if_too_large(partition: PartitionRecords, change: Fallback, runs: Sequence[TopicRun]) -> Steps[None]:
    """No change that a stage was free to make costs a client its batch: the one before goes through the others."""
    if partition.rejection is None or partition.rejection.error_code != ErrorCode.MESSAGE_TOO_LARGE:
        return
    partition.fall_back()
    change.undone()
    for run in runs[runs.index(change.run) + 1 :]:
        if (steps := run.batch(partition)) is not None:
            yield from steps
