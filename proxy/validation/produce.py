"""The way of a Produce request that somebody wants to validate: judge its batches, cut out what is refused, answer it.

One partition's batch is refused or let pass as a whole; the partitions beside it go on (KIP-467, design D7).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeVar

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_sidecar.codec.records import Batch, BatchTooLargeError
from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata
from kafka_sidecar.policies.plans import (
    NO_FAILED_KEYS,
    PolicyFailedError,
    Rejection,
    ResolveRequired,
    Rule,
    truncate_message,
)
from kafka_sidecar.proxy.exchanges.produce_response import Refused, merged, response_frame, summary
from kafka_sidecar.proxy.relay.exchange import Answer, Exchange, Hold, Last, Step
from kafka_sidecar.proxy.relay.frames import LENGTH, framed
from kafka_sidecar.proxy.runtime.allocator import give_back
from kafka_sidecar.proxy.runtime.loop_budget import Pace
from kafka_sidecar.proxy.runtime.threads import INFLATED_AT_ONCE, takes_long
from kafka_sidecar.proxy.validation.rules import Applied, MisconfiguredError, Rules
from kafka_sidecar.proxy.validation.stats import Observed
from kafka_sidecar.proxy.validation.structure import fault_of, only_batch, unreadable

E = TypeVar("E", bound=BaseException)
NO_ID = bytes(16)
VIEWED_FROM = 128 << 10  # bytes of a request from which on views of its records are cheaper than copies
FIRST_WITH_IDS = 13

Outcome = list[Rejection] | PolicyFailedError | Refused  # of asking about a batch; Refused: it cannot be read
ALL_GOOD: Outcome = []
NOT_READ = ProduceRequest()


@dataclass(slots=True)
class Surroundings:
    """What a running sidecar gives to those who judge."""

    name_of: Callable[[bytes], str | None]  # a topic's, where it is known
    learn_names: Callable[[Iterable[bytes]], Awaitable[None]]  # raises OSError, CodecError
    in_thread: Callable[[Callable[[], None]], Awaitable[None]]
    resolve: Callable[[Rule, object], Awaitable[None]]  # raises nothing
    observed: Observed
    limit: int  # bytes that a batch may have when it is decompressed
    until_known: Callable[[], Awaitable[str | None]] | None = None  # waits for topic configs, and says why they are
    # not known even then; None: there is nothing to wait for
    pace: Pace = field(default_factory=Pace)


@dataclass(slots=True)
class Part:
    """One partition of the request that has to be judged."""

    place: tuple[int, int]  # of the topic in the request, of the partition in the topic
    topic: TopicMetadata
    applied: Applied
    data: PartitionProduceData
    outcome: Outcome | ResolveRequired | None = (
        None  # what the policies said, not looked at yet; None: they must be asked
    )
    given_up: frozenset[tuple[str, object]] = NO_FAILED_KEYS  # what was fetched, or could not be


@dataclass(slots=True)
class ProduceExchange(Exchange):
    """One Produce request and its response."""

    rules: Rules
    around: Surroundings
    version: int
    refused: dict[tuple[int, int], Refused] = field(default_factory=dict)
    _frame: bytes = b""
    _body: int = 0
    _correlation_id: int = 0
    _client_id: str | None = None
    _request: ProduceRequest = NOT_READ
    _parts: list[Part] = field(default_factory=list)
    _at: int = 0  # of the part that is judged next

    @property
    def wants_response(self) -> bool:
        return bool(self.refused)

    def request(self, frame: bytes) -> Step:
        """Raises CodecError."""
        header, self._body = decode_request_header(frame, LENGTH.size)
        data = frame if len(frame) < VIEWED_FROM else memoryview(frame)
        self._request, _ = decode(ProduceRequest, data, self.version, self._body)
        self._frame, self._correlation_id, self._client_id = frame, header.correlation_id, header.client_id
        if (wait := self.around.until_known) is not None:
            return Hold(partial(self._wait_for_configs, wait), self._when_configs_are_known)
        return self._name_topics()

    def response(self, frame: bytes) -> bytes:
        """Raises CodecError."""
        return merged(frame, self._request, self.version, self.refused)

    async def _wait_for_configs(self, known: Callable[[], Awaitable[str | None]]) -> None:
        if (why := await known()) is not None:
            # Retriable, and the records have gone nowhere: producers try again until their own limit.
            for topic_at, topic in enumerate(self._request.topic_data):
                self._refuse(topic_at, topic, Refused(ErrorCode.REQUEST_TIMED_OUT, why))

    def _when_configs_are_known(self) -> Step:
        return self._decided() if self.refused else self._name_topics()

    def _name_topics(self, asked: bool = False) -> Step:
        """Find what holds for each topic, which since v13 is named by its id alone."""
        self._parts.clear()
        unknown = []
        for topic_at, topic in enumerate(self._request.topic_data):
            name = topic.name if self.version < FIRST_WITH_IDS else self.around.name_of(topic.topic_id)
            if name is not None:
                self._add(topic_at, topic, name)
            elif topic.partition_data:
                unknown.append((topic_at, topic))
        if unknown and not asked:
            return Hold(partial(self._learn, unknown), partial(self._name_topics, asked=True))
        for topic_at, topic in unknown:
            # As a broker that does not know the id: clients ask for metadata and try again.
            self._refuse(topic_at, topic, Refused(ErrorCode.UNKNOWN_TOPIC_ID, "the topic's id is not known here"))
        return self._judge()

    async def _learn(self, topics: Iterable[tuple[int, TopicProduceData]]) -> None:
        with suppress(OSError, CodecError):
            await self.around.learn_names([topic.topic_id for _, topic in topics])

    def _refuse(self, topic_at: int, topic: TopicProduceData, refused: Refused) -> None:
        self.refused |= {(topic_at, at): refused for at in range(len(topic.partition_data))}

    def _add(self, topic_at: int, topic: TopicProduceData, name: str) -> None:
        topic_id = topic.topic_id if self.version >= FIRST_WITH_IDS else NO_ID
        try:
            applied = self.rules.of(name, topic_id)
        except MisconfiguredError as error:
            self._refuse_misconfigured(topic_at, topic, name, error)
            return
        if applied is not None:
            for at, partition in enumerate(topic.partition_data):
                metadata = TopicMetadata(name, partition.index, topic_id, applied.text)
                self._parts.append(Part((topic_at, at), metadata, applied, partition))

    def _refuse_misconfigured(
        self, topic_at: int, topic: TopicProduceData, name: str, error: MisconfiguredError
    ) -> None:
        if (topic_at, 0) in self.refused:
            return  # told before a wait
        for partition in topic.partition_data:
            self.around.observed.misconfigured(name, partition.index, str(error), error.enforces)
        if error.enforces:
            why = truncate_message(f"record.validation.policy of {name}: {error}")
            self._refuse(topic_at, topic, Refused(ErrorCode.UNKNOWN_SERVER_ERROR, why))

    def _judge(self) -> Step:
        """Go on with the first part that is not judged yet."""
        while self._at < len(self._parts):
            part = self._parts[self._at]
            batch = only_batch(part.data.records)
            if isinstance(batch, Refused):
                self._refuse_structure(part, batch)
            else:
                if part.outcome is None and (hold := self._hold_or_ask(part, batch)) is not None:
                    return hold
                if isinstance(part.outcome, ResolveRequired):
                    waiting, part.outcome = part.outcome, None
                    return Hold(partial(self._resolve, part, waiting), self._judge)
                self._settle(part, batch, part.outcome or ALL_GOOD)
            self._at += 1
        return self._decided()

    def _hold_or_ask(self, part: Part, batch: Batch) -> Hold | None:
        """Let the policies judge: here, or held in a thread where that would keep all others waiting."""
        around, plan = self.around, part.applied.plan
        if around.pace.must_rest:
            return Hold(around.pace.rest, self._judge)
        if not plan.needs_records or not takes_long(batch, plan.records_at_once):
            began = perf_counter()
            self._ask(part, batch, min(around.limit, INFLATED_AT_ONCE))
            around.pace.spent_s += perf_counter() - began
        if part.outcome is not None:
            return None
        return Hold(partial(around.in_thread, partial(self._ask, part, batch, around.limit)), self._judge)

    def _ask(self, part: Part, batch: Batch, limit: int) -> None:
        """Note what the policies say; nothing where the batch holds more than ``limit`` bytes and may hold more."""
        try:
            part.outcome = part.applied.plan.validate(part.topic, batch, limit, part.given_up)
        except PolicyFailedError as error:
            part.outcome = error
        except ResolveRequired as error:
            part.outcome = _bare(error)
        except CodecError as error:
            too_large = isinstance(_bare(error), BatchTooLargeError)
            if too_large:
                give_back()
            if not too_large or limit == self.around.limit:
                part.outcome = fault_of(batch) or unreadable(batch, error)

    async def _resolve(self, part: Part, waiting: ResolveRequired) -> None:
        await self.around.resolve(waiting.rule, waiting.key)
        part.given_up |= {(waiting.rule.name, waiting.key)}  # a policy that asks for it again would ask for ever

    def _settle(self, part: Part, batch: Batch, outcome: Outcome) -> None:
        """Make a verdict of what the policies said."""
        observed = self.around.observed
        if not isinstance(outcome, Refused):
            observed.judged(batch, part.applied.plan.needs_records)
        if not outcome:
            return
        enforced = part.applied.enforces(batch.header.crc)
        if isinstance(outcome, Refused):
            refused = outcome
            observed.unreadable(part.topic, refused.message, enforced)
        elif isinstance(outcome, PolicyFailedError):
            refused = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"the policy {outcome.policy} failed")
            observed.failed(part.topic, outcome, enforced)
            _bare(_bare(outcome).error)
        else:
            refused = fault_of(batch) or _by_policies(outcome)
            observed.refused(part.topic, outcome, enforced, self._client_id)
        if enforced:
            self.refused[part.place] = refused

    def _refuse_structure(self, part: Part, refused: Refused) -> None:
        enforced = part.applied.enforces(0)  # there is no checksum by which a share could be chosen
        self.around.observed.unreadable(part.topic, refused.message, enforced)
        if enforced:
            self.refused[part.place] = refused

    def _decided(self) -> Step:
        """What goes to the broker."""
        if not self.refused:
            return self._frame
        left = self._without_refused()
        frame = self._with_body(encode(left, self.version)) if left.topic_data else b""
        if not self._request.acks:
            why = next(iter(self.refused.values())).message
            return Last(frame, "refused_without_acks", f"records that were sent with acks=0 are refused: {why}")
        if not frame:
            return Answer(response_frame(self._request, self.version, self._correlation_id, self.refused))
        self._keep_names_alone()
        return frame

    def _keep_names_alone(self) -> None:
        """Let go of all records: what they came to is known, and the broker may take its time to answer the rest."""
        topics = (
            replace_fields(
                topic, partition_data=tuple(replace_fields(one, records=None) for one in topic.partition_data)
            )
            for topic in self._request.topic_data
        )
        self._request = replace_fields(self._request, topic_data=tuple(topics))
        self._frame = b""
        self._parts.clear()

    def _without_refused(self) -> ProduceRequest:
        topics = []
        for topic_at, topic in enumerate(self._request.topic_data):
            passing = tuple(
                partition for at, partition in enumerate(topic.partition_data) if (topic_at, at) not in self.refused
            )
            if passing:
                topics.append(replace_fields(topic, partition_data=passing))
        return replace_fields(self._request, topic_data=tuple(topics))

    def _with_body(self, body: bytes) -> bytes:
        return framed(self._frame[LENGTH.size : self._body], body)


def _bare(error: E) -> E:
    """The error without its tracebacks: their frames keep all that the batch was inflated to."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def _by_policies(refusals: list[Rejection]) -> Refused:
    messages = [f"{refusal.policy}: {refusal.message}" for refusal in refusals]
    records = tuple((refusal.index, refusal.message) for refusal in refusals if refusal.index != WHOLE_BATCH)
    return Refused(ErrorCode.INVALID_RECORD, summary(messages), records)
