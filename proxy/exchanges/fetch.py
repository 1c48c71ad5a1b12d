"""A Fetch request and its response: opened once, taken through the stages of design D8, closed once.

    request --> whose topics --> each stage --> broker
    client <-- spliced frame <-- each partition: assemble, intercept, count <-- topics named <-- spans <-- response

Only what a stage changes is spliced into the response; every other byte stays (D1). Partitions that no stage wants are
stepped over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Protocol

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import Edit, records_field, response_body_at, splice
from kafka_sidecar.codec.glance import NO_SESSION, FetchGlance, check_fetch_partitions, glance_fetch
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.scan import FetchPartitionSpan, FetchSpans, FetchTopicSpan, aborted_transactions, scan_fetch
from kafka_sidecar.proxy.exchanges import old_fetch
from kafka_sidecar.proxy.exchanges.fetch_requests import (
    FIRST_FLEXIBLE,
    FIRST_WITH_IDS,
    OLDEST,
    FetchStart,
    no_topics,
    read_start,
)
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS, Limits
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import (
    TURN,
    Begin,
    Client,
    Exchange,
    FetchSession,
    Forward,
    Outcome,
    Pass,
    Steps,
    TopicNames,
)

_INT16, _INT64 = Struct(">h"), Struct(">q")


class FetchedPartition:
    """One partition of a response, as it passes the stages."""

    __slots__ = ("_frame", "_version", "error_code", "high_watermark", "new", "span", "topic")

    def __init__(self, topic: str, span: FetchPartitionSpan, frame: bytes, version: int) -> None:
        self.topic = topic
        self.span = span
        self.new: bytes | None = None  # the records that the client gets; None: those that came
        self.error_code: int | None = None  # in place of the broker's
        self.high_watermark: int | None = None  # in place of the broker's
        self._frame = frame
        self._version = version

    @property
    def index(self) -> int:
        return self.span.index

    @property
    def records(self) -> memoryview | bytes:
        """The records as the stages before have left them."""
        if self.new is not None:
            return self.new
        return memoryview(self._frame)[self.span.records_start : self.span.records_end]

    def aborted_transactions(self) -> tuple[AbortedTransaction, ...]:
        """Those whose records a client does not show that reads only committed ones."""
        return aborted_transactions(self._frame, self.span, self._version)

    @property
    def is_changed(self) -> bool:
        return self.new is not None or self.error_code is not None or self.high_watermark is not None

    def edits(self) -> list[Edit]:
        """What is different in the frame."""
        span, edits = self.span, list[Edit]()
        if self.error_code is not None:
            edits.append((span.error_code_at, span.error_code_at + _INT16.size, _INT16.pack(self.error_code)))
        if self.high_watermark is not None:
            at = span.high_watermark_at
            edits.append((at, at + _INT64.size, _INT64.pack(self.high_watermark)))
        if self.new is not None:
            field = records_field(self.new, self._version >= FIRST_FLEXIBLE)
            edits.append((span.records_at, span.records_end, field))
        return edits


class StageRun(Protocol):
    """One stage at work on one request and its response."""

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


class Stage(Protocol):
    """What a feature does with Fetch requests."""

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

    def start(self, client: Client, version: int) -> StageRun:
        """Begin with a request of this client."""
        ...


class FetchExchanges:
    """Decides which Fetch requests are looked into. The stages are those of D8, in their order."""

    def __init__(
        self, stages: Sequence[Stage], name_of: Callable[[bytes], str | None], limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._stages = stages
        self._limits = limits
        self._name_of = name_of
        self.fail_closed = any(stage.fail_closed for stage in stages)
        self._token = object()  # for `FetchSession.began_under`: a client must not keep the stages themselves

    def exchange(self, version: int) -> Begin:
        """What looks into requests of this version."""
        if version < OLDEST:
            return old_fetch.exchange(version, self._hides, self._limits.max_partitions)
        return partial(self.begin, version)

    def begin(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | Pass | None:
        """As `exchange.Begin`, for one version."""
        seen = glance_fetch(data, at, size, version, self._limits.max_partitions)
        if seen is None:
            client.fetch_session = None  # one may begin here
            return self._exchange(version, client)
        if self._may_be_wanted(seen, client):
            return self._exchange(version, client)
        head_at = at + CLIENT_ID_AT
        if seen.session_epoch == NO_SESSION and len(seen.topics) == 1:
            return Pass(data[head_at : seen.named_to])
        if seen.goes_on and not seen.topics:
            return Pass(data[head_at : seen.epoch_at], epoch=True, tail=no_topics(version))
        return None

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

    def _wants(self, topic: str | bytes) -> bool:
        name = self._name_of(topic) if isinstance(topic, bytes) else topic
        if name is None:
            return True
        for stage in self._stages:  # noqa: SIM110 - half as long as any() of a generator
            if stage.wants(name):
                return True
        return False

    def _hides(self, topic: str) -> bool:
        return any(stage.hides(topic) for stage in self._stages)

    def _exchange(self, version: int, client: Client) -> FetchExchange:
        runs = [stage.start(client, version) for stage in self._stages]
        return FetchExchange(runs, self._name_of, version, self._limits.max_partitions)


class FetchExchange(Exchange):
    """One Fetch request and its response."""

    __slots__ = ("_max_partitions", "_name_of", "_runs", "_version")

    def __init__(
        self,
        runs: Sequence[StageRun],
        name_of: Callable[[bytes], str | None],
        version: int,
        max_partitions: int = DEFAULT_LIMITS.max_partitions,
    ) -> None:
        self._runs = runs
        self._max_partitions = max_partitions
        self._name_of = name_of
        self._version = version

    def request(self, frame: bytes) -> Steps[Outcome]:
        check_fetch_partitions(frame, self._version, self._max_partitions)
        start = read_start(self._version, frame, 0)
        for run in reversed(self._runs):  # from the client's side to the broker's
            frame = yield from run.open(frame, start)
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        version = self._version
        body_at = response_body_at(ApiKey.FETCH, version, frame)
        spans = scan_fetch(frame, body_at, version, self._max_partitions)
        if version >= FIRST_WITH_IDS and (unknown := self._unknown_ids(spans)):
            yield TopicNames(unknown)
        looked_into: list[FetchedPartition] = []
        for topic in spans.topics:
            name = self._name_of(topic.key) if isinstance(topic.key, bytes) else topic.key
            if name is None:
                looked_into += self._reject_unknown(topic, frame)
                continue
            runs = [run for run in self._runs if run.wants(name)]
            wants_empty = any(run.wants_empty for run in runs)
            for span in topic.partitions if runs else ():
                if not wants_empty and span.records_start == span.records_end:
                    continue
                yield TURN
                partition = FetchedPartition(name, span, frame, version)
                looked_into.append(partition)
                for run in runs:
                    if (steps := run.partition(partition)) is not None:
                        yield from steps
        for run in self._runs:
            if (steps := run.finish()) is not None:
                yield from steps
        return splice(frame, [edit for partition in looked_into if partition.is_changed for edit in partition.edits()])

    def _unknown_ids(self, spans: FetchSpans) -> tuple[bytes, ...]:
        """The ids of topics whose names are not known here."""
        ids = [topic.key for topic in spans.topics if topic.partitions and isinstance(topic.key, bytes)]
        return tuple([topic_id for topic_id in ids if self._name_of(topic_id) is None])

    def _reject_unknown(self, topic: FetchTopicSpan, frame: bytes) -> list[FetchedPartition]:
        """Records of a topic without a name must not pass unseen: clients refresh their metadata and fetch again."""
        rejected = []
        for span in topic.partitions:
            if span.records_start != span.records_end:
                partition = FetchedPartition("", span, frame, self._version)
                partition.error_code, partition.new = ErrorCode.UNKNOWN_TOPIC_ID, b""
                rejected.append(partition)
        return rejected
