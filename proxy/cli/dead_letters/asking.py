"""Asks the policies of a configuration file about letters, as a sidecar would apply them; nothing is sent.

Records go in the batches of a replay, and what is left of a rejected batch is asked about again, as a replay sends it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.batch_layout import TRANSACTIONAL
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, BatchHeader, Records, batches
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.dead_letters.letters import OutgoingRecord
from kafka_sidecar.policies.contract import NO_POLICY, WHOLE_BATCH, TopicPolicy, UnavailableError
from kafka_sidecar.policies.plans import NO_FAILED_KEYS, PolicyFailedError, Rejection, ResolveRequired
from kafka_sidecar.proxy.cli.dead_letters.cluster import Cluster, ClusterError
from kafka_sidecar.proxy.cli.dead_letters.producer import Refusal, batch_of, send_in_order
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.topic_configs.entries import RECORD_VALIDATION_POLICY, own_configs, schema_argument
from kafka_sidecar.proxy.features.validation.from_config import rules
from kafka_sidecar.proxy.features.validation.rules import Applied, MisconfiguredError, Rules
from kafka_sidecar.proxy.runtime.performer import MAX_FETCH_S

PRODUCER_ID = 0  # of batches that are shown to policies: a replay has one
Answer = tuple[int, dict[int, str], str]  # error code, messages by index, message


class _OnceRead:
    """A batch as policies see it."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.header: BatchHeader = batch.header

    def records(self, limit: int) -> Records:
        return self._batch.records(limit)


class PolicyAsker:
    """Says which records policies would reject."""

    def __init__(self, config: Config, codec: int, failed: Callable[[str, BaseException], None]) -> None:
        """
        Args:
            config: a sidecar's.
            codec: of the replay's batches.
            failed: called with a policy that fails open, and its error.

        Raises ValueError: a policy is wrong.
        """
        self._config = config
        self._codec = codec
        self._on_topics: dict[str, TopicPolicy] = {}
        self._rules: Rules = rules(config, failed, lambda topic, _: self._on_topics.get(topic, NO_POLICY))
        self.trouble: str | None = None  # why what is set on topics themselves is not known

    async def ask(self, cluster: Cluster, records: Sequence[OutgoingRecord]) -> list[Refusal | None]:
        """What becomes of each record; None: the policies accept it."""
        targets = defaultdict[tuple[str, int], list[int]](list)
        for at, record in enumerate(records):
            targets[record.topic, record.partition].append(at)
        answers: list[Refusal | None] = [None] * len(records)
        for (topic, partition), places in targets.items():
            await self._look_at(cluster, topic)
            found = await self._ask_about(topic, partition, [records[at] for at in places])
            for at, answer in zip(places, found, strict=True):
                answers[at] = answer
        return answers

    async def _look_at(self, cluster: Cluster, topic: str) -> None:
        """Find the policies that are set on the topic with Kafka's tools, which a sidecar shows to who may see them."""
        settings = self._config.topic_configs
        if topic in self._on_topics or settings.topic is None:
            return
        self._on_topics[topic] = NO_POLICY
        try:
            found = await cluster.configs(topic, list(own_configs(lambda _: None, settings.schema_policy)))
        except ClusterError as error:
            self.trouble = str(error)
            return
        argument = schema_argument(found) if settings.schema_policy is not None else ""
        added = f"{settings.schema_policy}:{argument}" if argument else None
        self._on_topics[topic] = TopicPolicy(found.get(RECORD_VALIDATION_POLICY) or None, added)

    async def _ask_about(self, topic: str, partition: int, records: list[OutgoingRecord]) -> list[Refusal | None]:
        try:
            applied = self._rules.of(topic, NO_ID)
        except MisconfiguredError as error:
            refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR.name, f"record.validation.policy of {topic}: {error}")
            return [refusal if error.enforces else None] * len(records)
        if applied is None or applied.mode != "enforce":
            return [None] * len(records)

        async def answer(some: list[OutgoingRecord]) -> Answer:
            (batch,) = batches(batch_of(some, self._codec, TRANSACTIONAL, PRODUCER_ID))
            if not applied.enforces(batch.header.crc):
                return ErrorCode.NONE, {}, ""
            return _answer(await self._decide(applied, topic, partition, _OnceRead(batch)))

        return await send_in_order(records, answer)

    async def _decide(
        self, applied: Applied, topic: str, partition: int, batch: _OnceRead
    ) -> list[Rejection] | PolicyFailedError | CodecError:
        metadata = applied.metadata(topic, partition, NO_ID)
        failed = NO_FAILED_KEYS
        while True:
            try:
                return applied.plan.validate(metadata, batch, self._config.validation.max_batch, failed)
            except (PolicyFailedError, CodecError) as error:
                return error
            except ResolveRequired as waiting:
                with suppress(Exception):  # whatever it is, the policy fails when it is called again
                    async with asyncio.timeout(MAX_FETCH_S):
                        await waiting.rule.policy.resolve(waiting.key)
                failed |= {(waiting.rule.name, waiting.key)}


def _answer(found: list[Rejection] | PolicyFailedError | CodecError) -> Answer:
    """As a sidecar answers a Produce request."""
    if isinstance(found, PolicyFailedError):
        if isinstance(found.error, UnavailableError):
            text = f"the policy {found.policy} cannot decide now: {found.error}"
            return ErrorCode.REQUEST_TIMED_OUT, {}, text
        return ErrorCode.UNKNOWN_SERVER_ERROR, {}, f"the policy {found.policy} failed"
    if isinstance(found, CodecError):
        return ErrorCode.INVALID_RECORD, {}, str(found)
    if not found:
        return ErrorCode.NONE, {}, ""
    messages = {one.index: f"{one.policy}: {one.message}" for one in found}
    whole = messages.pop(WHOLE_BATCH, None)
    return ErrorCode.INVALID_RECORD, {} if whole else messages, whole or next(iter(messages.values()))
