"""A Fetch request and its response: opened once, taken through the stages of design D8, closed once.

    request --> whose topics --> each stage --> broker
    client <-- spliced frame <-- each partition: assemble, intercept, count <-- topics named <-- spans <-- response

Only what a stage changes is spliced into the response; every other byte stays (D1). Partitions that no stage wants are
stepped over. A client that keeps a fetch session (KIP-227) names its topics once; what it reads is only seen in the
responses.

Before version 4, which brokers before Kafka 4.0 take, only formats without headers come back (KIP-82): interceptors do
not look into these. Topics of which something is hidden are refused, all others are relayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import NamedTuple, Protocol

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import Edit, array_count, replace_span, response_body_at, splice, spliced
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.fetch_positions import NO_SESSION, FetchHead, open_fetch
from kafka_sidecar.codec.glance import FetchGlance, Topics, check_fetch_partitions, glance_fetch
from kafka_sidecar.codec.large_bytes import join
from kafka_sidecar.codec.message import Buffer, first_version
from kafka_sidecar.codec.messages.fetch import AbortedTransaction, FetchRequest, FetchTopic, PartitionData
from kafka_sidecar.codec.pieces import Pieces, in_pieces, whole
from kafka_sidecar.codec.scan import FetchPartitionSpan, FetchTopicSpan, aborted_transactions, scan_fetch
from kafka_sidecar.plugins.effects import TURN, Steps, Work
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, Limits
from kafka_sidecar.proxy.exchanges.messages import MessageExchanges, MessageRun, MessageRuns, resolve
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import (
    Begin,
    Client,
    Exchange,
    FetchSession,
    FindsLarge,
    Forward,
    Look,
    Outcome,
    Pass,
    Respond,
    RouteError,
    StagedExchange,
)
from kafka_sidecar.proxy.relay.routes import MAX_HEAD_BYTES

OLDEST = FetchRequest.declaration_.versions.low  # type: ignore[union-attr] # older ones have no headers (KIP-82)
FIRST_FLEXIBLE = FetchRequest.declaration_.first_flexible
FIRST_WITH_IDS = first_version(FetchTopic, "topic_id")
REPLICAS_LAST = first_version(FetchRequest, "replica_state")  # who they are is a tagged field from here on
# Of a partition in a request since then: 32 of fields that always have the same size, and one that says that no tagged
# fields follow. None is shorter, so that none is longer where all together have no more.
PARTITION_BYTES = 33
MAX_ALIKE_PARTITIONS = 1000  # for which more is not kept with each connection
_INT32 = Struct(">i")


class FetchStart(NamedTuple):
    """The beginning of a Fetch request."""

    isolation_level: int  # 1: only committed records (KIP-98)
    session_epoch: int  # 0: a session begins; -1: there is none; otherwise it is continued
    topics_at: int  # of their count
    max_bytes_at: int

    @property
    def continues_session(self) -> bool:
        """Whether the response may have topics that the request does not name."""
        return self.session_epoch > 0


def read_start(version: int, data: bytes, at: int) -> FetchStart:
    """The beginning of the request at data[at].

    Raises:
        CodecError: it is not all there, or cannot be read.
    """
    head = FetchHead.__new__(FetchHead)
    open_fetch(data, at, len(data), version, head)
    return FetchStart(head.isolation_level, head.session_epoch, head.topics_at, head.max_bytes_at)


def limit_size(version: int, frame: bytes, start: FetchStart, max_bytes: int) -> bytes:
    """The request, which asks for no larger response than this: the same object if it did not."""
    at = start.max_bytes_at
    if _INT32.unpack_from(frame, at)[0] <= max_bytes:
        return frame
    return replace_span(frame, at, at + _INT32.size, _INT32.pack(max_bytes))


Hides = Callable[[str], bool]  # whether something of a topic is hidden


def begin_old(
    version: int, hides: Hides, max_partitions: int, data: bytes, at: int, size: int, client: Client
) -> Exchange | None:
    """As `exchange.Begin`, for one version."""
    seen = glance_fetch(data, at, size, version, max_partitions)
    if seen is None:
        return OldFetchExchange(version, hides, max_partitions)
    _check(version, hides, seen)
    return None


class OldFetchExchange(Exchange):
    """A request of which not all has arrived, or with too many partitions."""

    __slots__ = ("_hides", "_max_partitions", "_version")

    def __init__(self, version: int, hides: Hides, max_partitions: int) -> None:
        self._max_partitions = max_partitions
        self._version = version
        self._hides = hides

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()  # nothing is needed
        check_fetch_partitions(frame, self._version, self._max_partitions)
        seen = glance_fetch(frame, 0, len(frame), self._version)
        if seen is None:
            raise CodecError(f"a Fetch request of version {self._version} that cannot be read")
        _check(self._version, self._hides, seen)
        return Forward(frame)


def _check(version: int, hides: Hides, seen: FetchGlance) -> None:
    for topic in seen.topics:
        if isinstance(topic, str) and hides(topic):
            why = f"Fetch version {version} is not relayed for topics of which interceptors hide something"
            raise RouteError("unsupported_version", why)


NO_TAGS_BYTES = 1  # after the topics, in a flexible version: no tagged field with brokers' addresses (KIP-951)
FIRST_WITH_LOG_START = first_version(PartitionData, "log_start_offset")
_INT16, _INT64 = Struct(">h"), Struct(">q")


class FetchedPartition:
    """One partition of a response, as the stages before have left it.

    A stage that changes nothing calls nothing: only `replace` puts other records in the place of those that came.
    """

    __slots__ = (
        "_frame", "_pieces", "_sent", "_version", "aborted", "error_code", "high_watermark", "key",
        "last_stable_offset", "span", "topic", "wanted_by",
    )  # fmt: skip

    def __init__(
        self, topic: str, key: str | bytes, span: FetchPartitionSpan, frame: bytes, version: int,
        wanted_by: Sequence[StageRun] = (),
    ) -> None:  # fmt: skip
        """``key`` is what the frame has: the topic's name, or since v13 its id."""
        self.topic = topic
        self.wanted_by = wanted_by
        self.key = key
        self.span = span
        self._pieces: tuple[Buffer, ...] | None = None  # the records that the client gets; None: those that came
        self._sent: tuple[Buffer, ...] | None = None  # what producers have sent, if the client gets less of it
        # In place of the broker's:
        self.error_code: int | None = None
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.aborted: tuple[AbortedTransaction, ...] | None = None
        self._frame = frame
        self._version = version

    @property
    def index(self) -> int:
        return self.span.index

    @property
    def records(self) -> Buffer:
        """The records as the stages before have left them, as one object."""
        pieces = self._pieces
        if pieces is None:
            return memoryview(self._frame)[self.span.records_start : self.span.records_end]
        if len(pieces) != 1:
            pieces = self._pieces = (join(pieces),)
        return pieces[0]

    def replace(self, *pieces: Buffer, sent: tuple[Buffer, ...] | None = None) -> None:
        """Give the client these records instead, which follow each other. The stages that follow see them.

        ``sent``: what producers have sent, if the client must not get all of it.
        """
        self._pieces, self._sent = pieces, sent

    def end_at(self, offset: int) -> None:
        """Answer as if the log ended there."""
        self._pieces, self._sent, self.high_watermark = (b"",), None, offset

    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        """Those whose records a client does not show that reads only committed ones."""
        return aborted_transactions(self._frame, self.span, self._version) if self.aborted is None else self.aborted

    @property
    def offsets(self) -> tuple[int, int, int]:
        """The broker's high watermark, last stable offset and log start offset, which is -1 before v5."""
        at = self.span.high_watermark_at
        high, stable = _INT64.unpack_from(self._frame, at)[0], _INT64.unpack_from(self._frame, at + 8)[0]
        start = _INT64.unpack_from(self._frame, at + 16)[0] if self._version >= FIRST_WITH_LOG_START else -1
        return high, stable, start

    @property
    def is_changed(self) -> bool:
        return (
            self._pieces is not None
            or self.error_code is not None
            or self.high_watermark is not None
            or self.last_stable_offset is not None
            or self.aborted is not None
        )

    def edits(self, as_sent: bool = False) -> list[Edit]:
        """What is different in the frame. ``as_sent``: with all that producers have sent."""
        pieces = self._sent if as_sent and self._sent is not None else self._pieces
        span, edits = self.span, list[Edit]()
        if self.error_code is not None:
            edits.append((span.error_code_at, span.error_code_at + _INT16.size, _INT16.pack(self.error_code)))
        if self.high_watermark is not None:
            at = span.high_watermark_at
            edits.append((at, at + _INT64.size, _INT64.pack(self.high_watermark)))
        if self.last_stable_offset is not None:
            at = span.high_watermark_at + _INT64.size
            edits.append((at, at + _INT64.size, _INT64.pack(self.last_stable_offset)))
        is_flexible = self._version >= FIRST_FLEXIBLE
        if self.aborted is not None:
            edits.append((span.aborted_at, span.aborted_end, write_aborted(self.aborted, is_flexible)))
        if pieces is not None:
            length = array_count(sum(map(len, pieces)), is_flexible)
            edits += [(span.records_at, span.records_start, length), (span.records_start, span.records_end, b"")]
            edits += [(span.records_end, span.records_end, piece) for piece in pieces]
        return edits


class Sees(IntEnum):
    """What a stage is shown of fetched records. Those that see the same are in D8's order, reversed."""

    SLICES = 0  # as they are stored: it makes messages whole
    STORED = 1  # whole, and otherwise as they are stored
    CHANGED = 2  # as the stages before have left them for this client


class StageRun(FindsLarge, Protocol):
    """One stage at work on one request and its response."""

    restores: bool  # whether it puts in place what producers have sent, and hides nothing of that
    wants_empty: bool  # whether `partition` is to be called for partitions without records, too

    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        """The request has come whole. What goes to the broker: the same object where nothing is changed."""
        ...

    def wants(self, topic: str) -> bool:
        """Whether `partition` is to be called for the records of this topic."""
        ...

    def partition(self, partition: FetchedPartition) -> Steps[None] | None:
        """Do the stage's part: change, remember. Steps where something is needed for that."""
        ...

    def finish(self) -> Steps[None] | None:
        """All partitions were seen; those that were changed can be changed again."""
        ...

    def close(self) -> None:
        """The response is written, or will not be."""
        return


class Stage(Protocol):
    """What a feature does with Fetch requests."""

    sees: Sees = Sees.CHANGED

    @property
    def fail_closed(self) -> bool:
        """Whether a client must not get records of its topics unseen, whatever is known of its fetch session."""
        ...

    def wants(self, topic: str) -> bool:
        """Whether it looks into the records of this topic."""
        ...

    def hides(self, topic: str) -> bool:
        """Whether a client must not get records of this topic unseen."""
        ...

    def relayed(self, client: Client, version: int, isolation_level: int) -> Callable[[], StageRun] | None:
        """If it looks at responses alone, as long as the client's name and software stay: what begins with each request
        of this level. It goes to the broker as it comes, and `StageRun.open` is not called."""
        return None

    def start(self, client: Client, version: int) -> StageRun:
        """Begin with a request of this client."""
        ...


class GuardStage(Protocol):
    """The first stage, of requests in which something is denied, or whose session has to be known."""

    def __call__(self, client: Client, version: int) -> MessageRun | None:
        """As a `MessageStage`."""
        ...

    def relays(self, client: Client, seen: FetchGlance) -> bool:
        """Whether a request needs no such stage, nor any that begins alike while principal and rules stay."""
        ...


class FetchExchanges:
    """Decides which Fetch requests are looked into. The stages are those of D8, in their order."""

    def __init__(
        self,
        stages: Sequence[Stage],
        name_of: Callable[[bytes], str | None],
        limits: Limits = DEFAULT_LIMITS,
        guard: GuardStage | None = None,
    ) -> None:
        self.stages = stages
        self.guard = guard
        self._limits = limits
        self._name_of = name_of
        self.fail_closed = any(stage.fail_closed for stage in stages)
        self._token = object()  # for `FetchSession.began_under`: a client must not keep the stages themselves

    def exchange(self, version: int) -> Begin:
        """What looks into requests of this version."""
        if version < OLDEST:
            if self.guard is not None:  # it cannot read these, and nothing passes it unread
                return MessageExchanges([self.guard], self._limits).exchange(version)
            return partial(begin_old, version, self._hides, self._limits.max_partitions)
        return partial(self.begin, version)

    def begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | Look | Pass | None:
        """As `exchange.Begin`, for one version."""
        seen = glance_fetch(data, at, size, version, self._limits.max_partitions)
        if seen is None:
            client.fetch_session = None  # one may begin here
            return self._exchange(version, client, self.stages, self.guard)
        guard = self.guard
        if guard is not None and guard.relays(client, seen):
            guard = None
        is_wanted = bool(self.stages) and self._may_be_wanted(seen, client)
        if guard is None and not is_wanted:
            return self._passes_alike(version, seen, data, at, size)
        if self.guard is None and seen.session_epoch == NO_SESSION and self._is_known(seen.topics):
            return self._look(version, client, seen, data, at + CLIENT_ID_AT)
        return self._exchange(version, client, self.stages if is_wanted else (), guard)

    def _passes_alike(self, version: int, seen: FetchGlance, data: bytes, at: int, size: int) -> Pass | None:
        """Which requests are relayed as this one is: of the same topic, or those that continue a session alike."""
        head_at = at + CLIENT_ID_AT
        if seen.session_epoch == NO_SESSION and len(seen.topics) == 1:
            if self.guard is None or version < REPLICAS_LAST:
                return Pass(data[head_at : seen.named_to])
            return _same_layout(seen, data, at, size)  # a guard has to know whether it is a replica's
        if seen.goes_on and not seen.topics:
            return Pass(data[head_at : seen.epoch_at], epoch=True, tail=data[seen.topics_at : at + size])
        return None

    def _look(self, version: int, client: Client, seen: FetchGlance, data: bytes, head_at: int) -> Look:
        """What is done with a request without a session, and with those that begin alike."""
        head = data[head_at : seen.named_to]
        asked = _INT32.unpack_from(data, seen.max_bytes_at)[0]
        starts = [stage.relayed(client, version, seen.isolation_level) for stage in self.stages]
        known = [start for start in starts if start is not None]
        if asked <= self._limits.max_response and len(known) == len(starts):
            return Look(head, partial(self._relayed, version, known), relays=True)
        return Look(head, partial(self._exchange, version, client, self.stages, None))

    def _may_be_wanted(self, seen: FetchGlance, client: Client) -> bool:
        """Whether the response may have records that a stage wants; if not, it need not be collected."""
        is_wanted = any(map(self._wants, seen.topics))
        if seen.session_epoch == 0 or is_wanted:
            client.fetch_session = FetchSession(self._token, is_wanted)
        if is_wanted or not seen.goes_on:
            return is_wanted
        # Where a stage must see all records, what is known of this connection is not enough: a session may be continued
        # on another one.
        session = client.fetch_session
        return self.fail_closed or session is None or session.is_wanted or session.began_under is not self._token

    def _is_known(self, topics: Topics) -> bool:
        """Whether it is one topic, whose name is known: stages want it or not until the configuration is reloaded."""
        return len(topics) == 1 and (isinstance(topics[0], str) or self._name_of(topics[0]) is not None)

    def _wants(self, topic: str | bytes) -> bool:
        name = self._name_of(topic) if isinstance(topic, bytes) else topic
        if name is None:
            return True
        for stage in self.stages:  # noqa: SIM110 - half as long as any() of a generator
            if stage.wants(name):
                return True
        return False

    def _hides(self, topic: str) -> bool:
        return any(stage.hides(topic) for stage in self.stages)

    def _exchange(
        self, version: int, client: Client, stages: Sequence[Stage], guard: GuardStage | None
    ) -> FetchExchange:
        runs = [stage.start(client, version) for stage in stages]
        checks = [run] if guard is not None and (run := guard(client, version)) is not None else []
        messages = MessageRuns(checks, version, self._limits) if checks else None
        return FetchExchange(runs, self._name_of, version, self._limits, messages)

    def _relayed(self, version: int, starts: Sequence[Callable[[], StageRun]]) -> FetchExchange:
        return FetchExchange([start() for start in starts], self._name_of, version, self._limits)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields of a request are: of partitions without tagged fields, each is as long as the others."""

    tags_at: int  # from the beginning: where the tagged fields of the first partition are
    end: int  # of the partitions
    no_tags: bytes  # as many as there are partitions
    tail: bytes  # what follows

    def fits(self, data: bytes, at: int, size: int) -> bool:
        """As `Pass.fits`: whether a request that begins alike has this layout, and the same after its partitions."""
        end = at + self.end
        return data[end : at + size] == self.tail and data[at + self.tags_at : end : PARTITION_BYTES] == self.no_tags


def _same_layout(seen: FetchGlance, data: bytes, at: int, size: int) -> Pass | None:
    """Requests for the same topic and as many partitions, from wherever, that end alike: with no replica's tag."""
    count, start, end = seen.elements
    if not count or count > MAX_ALIKE_PARTITIONS or end - start != count * PARTITION_BYTES:
        return None
    layout = Layout(start + PARTITION_BYTES - 1 - at, end - at, bytes(count), data[end : at + size])
    return Pass(data[at + CLIENT_ID_AT : start], fits=layout.fits) if len(layout.tail) <= MAX_HEAD_BYTES else None


class FetchExchange(StagedExchange[StageRun]):
    """One Fetch request and its response."""

    __slots__ = ("_limits", "_messages", "_name_of", "_restored", "_version")

    def __init__(
        self,
        runs: Sequence[StageRun],
        name_of: Callable[[bytes], str | None],
        version: int,
        limits: Limits = DEFAULT_LIMITS,
        messages: MessageRuns | None = None,
    ) -> None:
        """``messages``: the stages that come before those of records, of the whole request and response."""
        self._runs = runs
        self._messages = messages
        # Edits of the broker's frame, or all of it after them.
        self._restored: list[Edit] | bytes | Pieces | None = None
        self._limits = limits
        self._name_of = name_of
        self._version = version

    def request(self, frame: bytes) -> Steps[Outcome]:
        check_fetch_partitions(frame, self._version, self._limits.max_partitions)
        if self._messages is not None:
            outcome = yield from self._messages.request(frame)
            if isinstance(outcome, Respond):
                self._close()
                return outcome
            frame = outcome.frame
            if not self._runs and not outcome.wants_response:
                return Forward(frame)
        start = read_start(self._version, frame, 0)
        frame = limit_size(self._version, frame, start, self._limits.max_response)
        for run in reversed(self._runs):  # from the client's side to the broker's
            frame = yield from run.open(frame, start)
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes | Pieces]:
        new: bytes | Pieces = (yield from self._take_records(frame)) if self._runs else frame
        if self._messages is not None and self._messages.wants_response:
            new = yield from self._messages.response(whole(new))
        return new

    def _take_records(self, frame: bytes) -> Steps[bytes | Pieces]:
        """The response after the stages of records."""
        version = self._version
        body_at = response_body_at(ApiKey.FETCH, version, frame)
        spans = scan_fetch(frame, body_at, version, self._limits.max_partitions)
        if version >= FIRST_WITH_IDS:
            name_of = self._name_of
            ids = [key for topic in spans.topics if topic.partitions and isinstance(key := topic.key, bytes)]
            if None in [name_of(key) for key in ids]:
                yield from resolve(ids, name_of)
        looked_into: list[FetchedPartition] = []
        for topic in spans.topics:
            name = self._name_of(topic.key) if isinstance(topic.key, bytes) else topic.key
            if name is None:
                looked_into += self._reject_unknown(topic, frame)
                continue
            wanted = [run for run in self._runs if run.wants(name)]
            if not wanted:
                continue
            wants_empty = True in [run.wants_empty for run in wanted]
            looked_into += [
                FetchedPartition(name, topic.key, span, frame, version, wanted)
                for span in topic.partitions
                if wants_empty or span.records_start != span.records_end
            ]
        for run in self._runs:
            yield from _take_through(run, looked_into)
            if run.restores:
                self._restored = _edits(looked_into, as_sent=True)
        if not (edits := _edits(looked_into)):
            self._close()
            return frame  # `unhidden` has what was restored, if that is something else
        may_name_brokers = len(frame) > spans.end + NO_TAGS_BYTES
        new = splice(frame, edits) if may_name_brokers else in_pieces(spliced(frame, edits))
        if edits == self._restored:
            self._restored = new
        self._close()
        return new

    def unhidden(self, frame: bytes) -> bytes | Pieces:
        restored = self._restored
        if restored is None or isinstance(restored, bytes | Pieces):
            return frame if restored is None else restored
        return splice(frame, restored)

    def lost(self, why: str) -> Work | None:
        self._close()
        return None

    def _close(self) -> None:
        for run in self._runs:
            run.close()

    def _reject_unknown(self, topic: FetchTopicSpan, frame: bytes) -> list[FetchedPartition]:
        """Records of a topic without a name must not pass unseen: clients refresh their metadata and fetch again."""
        rejected = []
        for span in topic.partitions:
            if span.records_start != span.records_end:
                partition = FetchedPartition("", topic.key, span, frame, self._version)
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_ID
                partition.replace(b"")
                rejected.append(partition)
        return rejected


def _edits(partitions: Sequence[FetchedPartition], as_sent: bool = False) -> list[Edit]:
    return [edit for partition in partitions if partition.is_changed for edit in partition.edits(as_sent)]


def _take_through(run: StageRun, partitions: Sequence[FetchedPartition]) -> Steps[None]:
    """All that a stage wants of a response, before the next stage sees any of it."""
    for partition in partitions:
        if run in partition.wanted_by and (run.wants_empty or len(partition.records)):
            yield TURN
            if (steps := run.partition(partition)) is not None:
                yield from steps
    if (steps := run.finish()) is not None:
        yield from steps


def write_aborted(aborted: Sequence[AbortedTransaction], is_flexible: bool) -> bytes:
    """The field of aborted transactions of a partition."""
    tags = b"\0" if is_flexible else b""
    entries = [_INT64.pack(one.producer_id) + _INT64.pack(one.first_offset) + tags for one in aborted]
    return array_count(len(aborted), is_flexible) + b"".join(entries)
