"""StreamsGroupHeartbeat: the broker creates the internal topics of a topology (KIP-1071), with the sidecar's rights.

So a member needs the right to create those that do not exist. A broker lets one without it join all the same, creates
nothing and says so in a status; it cannot be asked not to create, so here the heartbeat that brings the topology is
refused.
"""

from __future__ import annotations

from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.messages import OpenMessage
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import on_cluster, on_topic
from kafka_sidecar.proxy.features.authorization.checks import Check, CheckRun
from kafka_sidecar.proxy.features.authorization.group_apis import internal_topics
from kafka_sidecar.proxy.relay.exchange import Client, TopicIds


class CheckStreams(Check):
    """The stage of StreamsGroupHeartbeat."""

    def start(self, client: Client, version: int) -> CheckStreamsRun:
        return CheckStreamsRun(self._rules, self._key, self._api, client)


class CheckStreamsRun(CheckRun):
    """One request."""

    __slots__ = ()

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        if (answer := (yield from super().request(request))) is not None:
            return answer
        asked = yield from request.read(StreamsGroupHeartbeatRequest)
        names = sorted(internal_topics(asked.topology))
        principal = self._client.principal
        if not names or self._rules.allows(self._key, on_cluster(Operation.CREATE), principal):
            return None
        denied = {
            name: why
            for name in names
            if (why := self._rules.check(self._key, on_topic(Operation.CREATE, name), principal)) is not None
        }
        if not denied:
            return None
        existing = yield TopicIds(tuple(denied))
        for name, why in denied.items():
            if name not in (existing or {}):
                self._rules.denials.record(self._key, [why], self._client)
                return self._api.refusal(asked, why)
        return None
