"""The stage of a Produce that lets no records into denied topics, or of denied transactions. It comes first."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.proxy.exchanges.produce import Stage, StageRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection, Results
from kafka_sidecar.proxy.exchanges.rejections import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import on_topic, on_transaction
from kafka_sidecar.proxy.features.authorization.denials import Denials
from kafka_sidecar.proxy.relay.exchange import Client


class DeniedProduce(Stage):
    """Looks into requests for topics that are denied, or whose name is not known."""

    is_stable = True

    def __init__(self, rules: Denials) -> None:
        self._rules = rules

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        concerns = self._rules.concerns
        return not topics or any(name is None or concerns(ApiKey.PRODUCE, name) for name, _ in topics)

    def start(self, client: Client, version: int) -> DeniedRun:
        return DeniedRun(self._rules, client)


class DeniedRun(StageRun):
    """One request."""

    __slots__ = ("_client", "_rules", "_transaction")

    wants_response = False

    def __init__(self, rules: Denials, client: Client) -> None:
        self._rules = rules
        self._client = client
        self._transaction: Rejection | None = None

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        if spans.transactional_id is not None:
            need = on_transaction(Operation.WRITE, spans.transactional_id)
            self._transaction = self._rules.check(ApiKey.PRODUCE, need, self._client.principal)

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> PartitionRejection | None:
        need = on_topic(Operation.WRITE, topic_id if topic is None else topic)
        denial = self._transaction or self._rules.check(ApiKey.PRODUCE, need, self._client.principal)
        return PartitionRejection(denial.error_code, denial.message) if denial is not None else None

    def sent(self) -> None:
        return

    def answered(self, results: Results) -> None:
        return

    def unanswered(self, rejected: set[PartitionKey], why: str) -> None:
        return

    def lost(self, why: str) -> None:
        return
