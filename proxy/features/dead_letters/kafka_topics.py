"""The dead letter topics in Kafka, written by one idempotent producer of aiokafka; batches are built here.

Letters of one partition of a topic go to one partition of the dead letter topic, in their order. Each partition is
written by a task of its own, which goes on across calls: what it has begun to send is never sent by another. One that
takes nothing while brokers answer is held: its letters wait elsewhere, and those of others are sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    BrokerResponseError,
    IncompatibleBrokerVersion,
    InvalidProducerEpoch,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    RecordListTooLargeError,
    UnknownProducerId,
)
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.metadata import MetadataRequest

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import batches, with_producer
from kafka_sidecar.dead_letters.parcels import Letter, Parcel, build
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.large_messages.splitting import RefusedError, Split, Target, split
from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.proxy.features.dead_letters.held import HeldLanes, Lane
from kafka_sidecar.proxy.runtime.aiokafka_settings import NotCreatedError, create_topic, start_producer
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

log = logging.getLogger(__name__)

REQUEST_LIMIT_MS = 10_000
RETRY_MS = 100  # how often it is looked for a topic that was created
START_S = 10.0  # to connect and get a producer id
ATTEMPT_S = 5.0  # after which letters count as not taken by the brokers; they stay where they are
CLOSE_S = 1.0
RETRY_S = 0.5
WATCH_S = 10.0  # how often it is looked whether topics of held lanes exist still
MAX_TOPICS = 10_000  # of which it is remembered what they are: clients choose the names
STUCK_LOOKS = 3
MAX_HELD = 1000  # lanes: each has up to TAKEN_BYTES of letters in memory, usually less
INLINE_BYTES = 64 << 10  # beyond that a batch is built in a thread
KNOWN_S, MISSING_S = 300.0, 1.0  # how long it is remembered of a topic that it exists, or does not
MAX_BATCH = "max.message.bytes"
DEFAULT_MAX_BATCH = 1_048_588  # Kafka's, where the sidecar may not describe the topic
ROOM_MAX_BATCH = 2 << 20  # of a topic that is created: letters are larger than their records
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
BREAKS = (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId)  # only another producer can go on


WHY = {
    int(ErrorCode.TOPIC_AUTHORIZATION_FAILED): "the brokers do not let the sidecar use it",
    int(ErrorCode.INVALID_TOPIC_EXCEPTION): "brokers accept no topic of this name",
}
NOT_TAKEN = "the brokers do not take them"
# With these it is of no use to try again: letters that wait would hold up all others.
FOR_GOOD = {
    ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION,
}  # fmt: skip
REFUSED_S = 30.0  # after which it is tried again to create a topic
NOT_ALLOWED = "the brokers do not let the sidecar create it"
NOT_ALLOWED_CODES = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
COMPACTED = "a letter is deleted once a later one has the same key, and one without a key is refused"
MISSING = "it does not exist: create it, or set dead_letters.create"


@dataclass(frozen=True, slots=True)
class Creation:
    """How a topic is created that does not exist."""

    partitions: int = -1  # -1: the cluster's default
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Topic:
    partitions: int  # 0: it does not exist, or must not be used
    max_batch: int
    is_compacted: bool
    until: float
    why: str = ""
    ill: frozenset[int] = frozenset()  # partitions without a leader or some replica


class _Sealed:
    """A batch as aiokafka takes it from a builder of its own."""

    def __init__(self, batch: bytes, letters: int) -> None:
        self._batch = batch
        self._letters = letters

    def record_count(self) -> int:
        return self._letters

    def closed(self) -> bool:
        return True

    def close(self) -> None:
        """It is."""

    def size(self) -> int:
        return len(self._batch)

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._batch = with_producer(self._batch, producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:
        return self._batch


class LetterTopics:
    """A `Writer` of parcels."""

    failures = (KafkaError, OSError, TimeoutError)

    def __init__(
        self, bootstrap_servers: list[str], access: BrokerAccess, creation: Callable[[], Creation | None],
        large: Callable[[str], TopicSettings | None], dropped: Callable[[str, str, int, str], None],
        sent: Callable[[str, int], None], lanes: HeldLanes, hold: Callable[[Sequence[Parcel]], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """
        Args:
            bootstrap_servers: of the cluster.
            access: how brokers are connected to.
            creation: how topics are created; None: they must exist.
            large: a topic's settings of large messages, if it may have them.
            dropped: called with a topic, reason and number of letters that can never be written, and an explanation.
            sent: called with a topic and number of letters that are written.
            lanes: those that are held.
            hold: lets the letters of a lane wait; False: there is no room for them.
        """
        self._access = access
        self._creation = creation
        self._large = large
        self._dropped = dropped
        self._sent = sent
        self._held = lanes
        self._hold = hold
        self._watching: asyncio.Task[None] | None = None
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "request_timeout_ms": REQUEST_LIMIT_MS}
        self._producer: Any = None
        self._topics = Bounded[str, _Topic](MAX_TOPICS)
        self._warned = Bounded[str, None](MAX_TOPICS)  # of topics that are compacted
        self._lanes: list[Lane] = []
        self._connecting = asyncio.Lock()

    async def write(self, items: list[Parcel]) -> tuple[list[Parcel], str | None]:
        await self._connect()
        if not self._lanes:
            self._lanes = await self._sort(items)
        for lane in self._lanes:
            if lane.task is None:
                lane.task = spawn(self._send(lane), "send dead letters")
        return await self._wait()

    async def check(self, names: Iterable[str]) -> dict[str, str]:
        """The topics that cannot be used, and why. They are created if they are to be. Raises one of `failures`."""
        await self._connect()
        found = [(name, await self._find(name)) for name in names]
        return {name: topic.why for name, topic in found if not topic.partitions}

    @property
    def unsent(self) -> list[Parcel] | None:
        """What a call of `write` has left that did not end; None: there is no such call."""
        return self._left() if self._lanes else None

    async def stop(self) -> None:
        await stop(*(lane.task for lane in self._lanes if lane.task is not None))
        await stop(*(task for task in (self._watching,) if task is not None))
        await self._close()

    async def _connect(self) -> None:
        async with self._connecting:
            if self._producer is None:
                async with asyncio.timeout(START_S):
                    self._producer = await start_producer(self._access, enable_idempotence=True, **self._common)

    def _left(self) -> list[Parcel]:
        return [parcel for lane in self._lanes for parcel in lane.parcels]

    async def _wait(self) -> tuple[list[Parcel], str | None]:
        """Until all lanes have ended, for a while; what they have left, and why."""
        tasks = [lane.task for lane in self._lanes if lane.task is not None]
        pending: Iterable[asyncio.Task[None]] = ()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=ATTEMPT_S)
        failure, breaks = None, False
        if pending:
            found = await self._look_again()
            breaks = self._drop_lost(found)
            if not breaks:
                await self._hold_lanes(found)
            troubles = [lane.trouble for lane in self._lanes if not lane.is_over]
            if troubles:
                failure = next((trouble for trouble in troubles if trouble), NOT_TAKEN)
        for error in self._errors():
            failure, breaks = str(error) or repr(error), True
        self._lanes = [lane for lane in self._lanes if lane.parcels]
        if breaks:
            await stop(*(lane.task for lane in self._lanes if lane.task is not None))
        left = self._left()
        if breaks:
            self._lanes = []
            await self._close()
        return left, failure

    def _errors(self) -> list[Exception]:
        """Those that have ended lanes."""
        found: list[Exception] = []
        for lane in self._lanes:
            if lane.task is None or not lane.task.done():
                continue
            lane.task, error, lane.error = None, lane.error, None
            if error is not None:
                found.append(error)
                if not isinstance(error, self.failures):
                    log.error("dead letter sender crashed: this is a bug", exc_info=error)
        return found

    async def _look_again(self) -> dict[str, _Topic]:
        """The topics whose lanes have not ended, as far as brokers answer."""
        found: dict[str, _Topic] = {}
        for topic in {lane.topic for lane in self._lanes if not lane.is_over}:
            with suppress(*self.failures):
                async with asyncio.timeout(ATTEMPT_S):
                    found[topic] = await self._look(topic)
        return found

    def _drop_lost(self, found: Mapping[str, _Topic]) -> bool:
        """Drop what goes to topics that were deleted; whether there are any."""
        lost = {name: topic for name, topic in found.items() if not topic.partitions}
        for name, topic in lost.items():
            self._topics[name] = topic
        for lane in self._lanes:
            if lane.topic in lost:
                letters = sum(len(parcel.letters) for parcel in lane.parcels)
                self._drop(lane.topic, "no_topic", letters, lost[lane.topic].why or MISSING)
                lane.parcels.clear()
        return bool(lost)

    # Lanes that are held.

    async def _hold_lanes(self, found: Mapping[str, _Topic]) -> None:
        """Let letters wait whose partitions take nothing, though brokers answer; those of others are sent."""
        for lane in list(self._lanes):
            if lane.is_over or lane.topic not in found or not lane.parcels or self._held.count >= MAX_HELD:
                continue
            holding = asyncio.ensure_future(self._hold(list(lane.parcels)))
            try:
                is_kept = await asyncio.shield(holding)
            except asyncio.CancelledError:
                await asyncio.wait([holding])
                if holding.result():
                    self._add_held(lane)
                raise
            if is_kept:
                self._add_held(lane)

    def _add_held(self, lane: Lane) -> None:
        self._lanes.remove(lane)
        self._held.add(lane)
        log.warning(
            "dead letters wait for a partition",
            extra={"dead_letter_topic": lane.topic, "partition": lane.partition, "detail": lane.trouble or NOT_TAKEN},
        )
        if self._watching is None or self._watching.done():
            self._watching = spawn(self._watch(), "watch topics of dead letters that wait")

    async def _watch(self) -> None:
        """Give lanes up whose topics are deleted: their letters are sent again, and then dropped.

        One that sends nothing though its partition has all replicas again needs another producer.
        """
        stuck: dict[Lane, int] = {}
        while self._held.count:
            await asyncio.sleep(WATCH_S)
            for topic in {lane.topic for lane in self._held.lanes}:
                with suppress(*self.failures, AttributeError):  # the producer may be closed
                    async with asyncio.timeout(ATTEMPT_S):
                        found = await self._look(topic)
                        lanes = [lane for lane in self._held.lanes if lane.topic == topic]
                        if not found.partitions:
                            self._topics.pop(topic, None)
                            await stop(*(lane.task for lane in lanes if lane.task is not None))
                        for lane in lanes:
                            is_stuck = lane.partition not in found.ill and not lane.removed
                            stuck[lane] = stuck.get(lane, 0) + 1 if is_stuck else 0
            stuck = {lane: looks for lane, looks in stuck.items() if lane in self._held.lanes}
            if not self._lanes and any(looks >= STUCK_LOOKS for looks in stuck.values()):
                await self._close()

    async def _close(self) -> None:
        """Let go of the producer, and of what it has not sent."""
        await stop(*(lane.task for lane in self._held.lanes if lane.task is not None))
        producer, self._producer = self._producer, None
        self._topics.clear()
        if producer is None:
            return
        if (task := producer._sender.sender_task) is not None:
            task.cancel()  # it would go on until the brokers take what it has
        producer._closed = True
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await producer.client.close()

    async def _sort(self, parcels: Sequence[Parcel]) -> list[Lane]:
        """Parcels by where they are sent. Those whose topic does not exist are dropped."""
        lanes: dict[tuple[str, int], Lane] = {}
        topics = {name: await self._find(name) for name in {parcel.topic for parcel in parcels}}
        for parcel in parcels:
            topic = topics[parcel.topic]
            if not topic.partitions:
                self._drop(parcel.topic, "no_topic", len(parcel.letters), topic.why)
                continue
            partitions = self._held.partitions_of(parcel.topic) or topic.partitions
            key = parcel.topic, parcel.partition % partitions
            if (lane := lanes.get(key)) is None:
                lane = lanes[key] = Lane(*key, partitions, topic.max_batch, topic.is_compacted)
            lane.parcels.append(parcel)
        return list(lanes.values())

    def _drop(self, topic: str, reason: str, letters: int, why: str) -> None:
        if letters:
            self._dropped(topic, reason, letters, why)

    # A partition.

    async def _send(self, lane: Lane) -> None:
        try:
            while letters := lane.next_letters():
                try:
                    await self._send_letters(lane, letters)
                    lane.trouble = None
                except BrokerResponseError as error:
                    if not error.retriable or isinstance(error, BREAKS):
                        raise
                    lane.trouble = str(error) or repr(error)
                    await asyncio.sleep(RETRY_S)
        except Exception as error:  # noqa: BLE001 - `_wait` says what becomes of it
            lane.error = error

    async def _send_letters(self, lane: Lane, letters: list[Letter]) -> None:
        """Send letters in one batch, or in several that the topic allows; what it never takes is dropped."""
        limit = lane.max_batch
        batch = await _build(letters)
        why: KafkaError | None = None
        if len(batch) <= limit:
            try:
                await self._send_batch(lane, batch, len(letters))
            except BrokerResponseError as error:
                if error.retriable or isinstance(error, BREAKS):
                    raise
                why = error
            else:
                lane.remove(len(letters))
                self._sent(lane.topic, len(letters))
                return
        is_denied = why is not None and why.errno == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if len(letters) > 1 and not is_denied:
            middle = len(letters) // 2
            await self._send_letters(lane, letters[:middle])
            await self._send_letters(lane, letters[middle:])
            return
        if why is not None and not isinstance(why, TOO_LARGE):
            reason, text = "refused", f"{why or repr(why)}{f' ({COMPACTED})' if lane.is_compacted else ''}"
        elif await self._send_large(lane, letters[0], limit):
            return
        else:
            reason, text = "too_large", f"{len(batch)} bytes, and {MAX_BATCH} of the topic is {limit}"
        lane.remove(len(letters))
        self._drop(lane.topic, reason, len(letters), text)

    async def _send_batch(self, lane: Lane, batch: bytes, records: int) -> int:
        """The offset of the first record."""
        producer = self._producer
        known = producer._txn_manager._sequence_numbers
        at = TopicPartition(lane.topic, lane.partition)
        first = known[at]
        written = await producer.send_batch(_Sealed(batch, records), lane.topic, partition=lane.partition)
        try:
            offset: int = (await written).offset
        except BrokerResponseError as error:
            if not isinstance(error, BREAKS):
                known[at] = first  # the broker has not used these numbers, or for this very batch
            raise
        return offset

    async def _send_large(self, lane: Lane, letter: Letter, limit: int) -> bool:
        """Send a letter in slices; False: the topic has no large messages."""
        settings = self._large(lane.topic)
        if settings is None:
            return False
        target = Target(lane.topic, bytes(16), lane.partition, limit, lane.is_compacted, settings, os.urandom)
        try:
            found = await asyncio.to_thread(_split, letter, target)
        except Exception as error:  # noqa: BLE001 - a serializer may be a plug-in
            lane.remove(1)
            why = str(error) if isinstance(error, RefusedError) else f"it cannot be split: {type(error).__name__}"
            self._drop(lane.topic, "too_large", 1, why)
            return True
        offsets = [await self._send_batch(lane, b"".join(parts), 1) for parts in found.slices]
        await self._send_batch(lane, found.carrier(offsets), 1)
        lane.remove(1)
        self._sent(lane.topic, 1)
        return True

    # Topics.

    async def _find(self, name: str) -> _Topic:
        known = self._topics.get(name)
        if known is None or known.until < monotonic():
            async with asyncio.timeout(START_S):
                known = await self._look(name)
                if not known.partitions and (creation := self._creation()) is not None and not known.why:
                    known = await self._created(name, creation)
                if known.partitions:
                    await self._producer.client._wait_on_metadata(name)
            if not known.partitions and not known.why:
                known = replace(known, why=MISSING)
            self._topics[name] = known
            if known.is_compacted and name not in self._warned:
                self._warned[name] = None
                log.warning("dead letter topic is compacted", extra={"dead_letter_topic": name, "detail": COMPACTED})
        return known

    async def _look(self, name: str) -> _Topic:
        client = self._producer.client
        response = await client.send(client.get_random_node(), MetadataRequest([name], allow_auto_topic_creation=False))
        (topic,) = response.to_object()["topics"]
        code = topic["error_code"]
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _Topic(0, 0, False, monotonic() + MISSING_S)
        if code in WHY:
            return _Topic(0, 0, False, monotonic() + MISSING_S, WHY[code])
        if not topic["partitions"]:
            raise OSError(f"the topic {name} has no partition now: error {code}")
        configs = await self._configs(name)
        return _Topic(
            len(topic["partitions"]), int(configs.get(MAX_BATCH, DEFAULT_MAX_BATCH)),
            "compact" in configs.get("cleanup.policy", ""), monotonic() + KNOWN_S,
            ill=frozenset(
                one["partition"] for one in topic["partitions"]
                if one["leader"] < 0 or len(one["isr"]) < len(one["replicas"])
            ),
        )  # fmt: skip

    async def _configs(self, name: str) -> dict[str, str]:
        """Those that matter, as far as the sidecar may see them."""
        client = self._producer.client
        wanted = ConfigResource(ConfigResourceType.TOPIC, name, {MAX_BATCH: None, "cleanup.policy": None})
        resource = AIOKafkaAdminClient._convert_describe_config_resource_request(wanted)
        try:
            response = await client.send(client.get_random_node(), DescribeConfigsRequest([resource], False))
        except IncompatibleBrokerVersion:  # there is no such API, as in librdkafka's mock
            return {}
        code, _, _, _, entries = response.resources[0][:5]
        return {} if code else {entry[0]: entry[1] or "" for entry in entries}

    async def _created(self, name: str, creation: Creation) -> _Topic:
        """A topic that did not exist, as it is afterwards. Raises one of `failures`: it may be created later."""
        configs = {MAX_BATCH: str(ROOM_MAX_BATCH), **creation.configs}
        try:
            code = await create_topic(
                self._access, name, creation.partitions, creation.replication_factor, configs, **self._common
            )
        except NotCreatedError as error:
            if error.code not in FOR_GOOD:
                raise
            return _Topic(0, 0, False, monotonic() + REFUSED_S, str(error))
        if code in NOT_ALLOWED_CODES:
            return _Topic(0, 0, False, monotonic() + REFUSED_S, NOT_ALLOWED)
        for _ in range(int(ATTEMPT_S * 1000 / RETRY_MS)):  # brokers learn of it one after another
            if (found := await self._look(name)).partitions:
                return found
            await asyncio.sleep(RETRY_MS / 1000)
        return found


async def _build(letters: list[Letter]) -> bytes:
    if sum(letter.size for letter in letters) <= INLINE_BYTES:
        return build(letters)
    return await asyncio.to_thread(build, letters)


def _split(letter: Letter, target: Target) -> Split:
    (batch,) = batches(build([letter]))
    return split(batch, batch.records(), target)
