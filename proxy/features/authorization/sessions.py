"""Fetch and share sessions: their requests name no topics, so rules hold for who has begun them, and for no other.

    Fetch, epoch 0 --> its topics are checked --> broker --> session id noted, for this connection, principal and rules
    Fetch, later   --> noted? relayed, its new topics checked  --> otherwise FETCH_SESSION_ID_NOT_FOUND: begin again

A session of the broker has allowed topics alone, and ends for its client with a reload or another login. The key of a
share session is no secret and the client's choice, so the topics in its responses are checked as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from struct import Struct as Format

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import response_body_at
from kafka_sidecar.codec.fetch_positions import NO_SESSION
from kafka_sidecar.codec.glance import FetchGlance, glance_fetch
from kafka_sidecar.codec.message import Message, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchResponse
from kafka_sidecar.codec.messages.share_fetch import ShareFetchableTopicResponse, ShareFetchResponse
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.exchanges.fetch import OLDEST
from kafka_sidecar.proxy.exchanges.limits import offload
from kafka_sidecar.proxy.exchanges.messages import OpenMessage, Rejection, resolve
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, on_topic
from kafka_sidecar.proxy.features.authorization.checks import CheckRun, Rules
from kafka_sidecar.proxy.features.authorization.topic_apis import is_replica
from kafka_sidecar.proxy.features.denials import explained
from kafka_sidecar.proxy.relay.exchange import Client

MAX_SHARE_SESSIONS = 4  # of one connection that are remembered; Kafka's clients have one
BEGINS, ENDS = 0, -1  # epochs
_FETCHED = Format(">ihi")  # throttle time, error code, session id


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which something is allowed: the rules that were read, for a principal."""

    rules: object
    principal: str | None
    is_replica: bool = False  # which needs another right


@dataclass(slots=True)
class Opened:
    """The sessions that a client has begun on its connection."""

    fetch: tuple[int, Terms] | None = None  # the id of the last one
    share: tuple[tuple[bytes, Terms], ...] = ()  # by group and member


def _opened(client: Client) -> Opened:
    opened = client.opened
    if not isinstance(opened, Opened):
        client.opened = opened = Opened()
    return opened


def _terms(rules: Rules, client: Client, is_replica: bool = False) -> Terms:
    return Terms(rules.generation, client.principal, is_replica)


class CheckFetch:
    """The stage of Fetch, whose requests are mostly for topics that their client may read."""

    def __init__(self, rules: Rules, key: int, api: CheckedApi) -> None:
        self._rules = rules
        self._key = key
        self._api = api

    def relays(self, client: Client, seen: FetchGlance) -> bool:
        """Whether a request needs no check: its topics may be read, and it goes on with no session but its client's.

        True holds for all that begin alike, as long as principal and rules stay.
        """
        epoch = seen.session_epoch
        if seen.may_be_replica:
            return False
        if epoch != NO_SESSION and not (self.knows(client, seen.session_id) if epoch else self._gets_none(client)):
            return False
        return self.allows(client, seen)

    def __call__(self, client: Client, version: int) -> CheckFetchRun:
        return CheckFetchRun(self, self._rules, self._key, self._api, client, version)

    def knows(self, client: Client, session_id: int, is_replica: bool = False) -> bool:
        """Whether a session was begun here, by this principal under these rules."""
        opened = client.opened
        return isinstance(opened, Opened) and opened.fetch == (session_id, _terms(self._rules, client, is_replica))

    def _gets_none(self, client: Client) -> bool:
        """Whether the broker has begun no session when it was asked for one: it keeps 1,000, and has to be asked again
        with each request. If it begins one after all, the client is asked to do so once more."""
        return self.knows(client, 0)

    def allows(self, client: Client, seen: FetchGlance) -> bool:
        """Whether all topics of a request may be read."""
        return self._rules.allow_all(self._key, [on_topic(Operation.READ, topic) for topic in seen.topics], client)


class CheckFetchRun(CheckRun):
    """One Fetch and its response."""

    __slots__ = ("_begins", "_stage")

    def __init__(
        self, stage: CheckFetch, rules: Rules, key: int, api: CheckedApi, client: Client, version: int
    ) -> None:
        super().__init__(rules, key, api, client, version)
        self._stage = stage
        self._begins: Terms | None = None  # under which a session begins

    @property
    def wants_response(self) -> bool:
        return self._begins is not None or super().wants_response

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        frame = yield from request.frame()
        client, replica = self._client, False
        seen = glance_fetch(frame, 0, len(frame), self._version) if self._version >= OLDEST else None
        if seen is not None and not seen.may_be_replica and self._stage.allows(client, seen):
            answer, session_id, epoch = None, seen.session_id, seen.session_epoch
        else:
            answer = yield from super().request(request)
            session_id, epoch = self._request.session_id, self._request.session_epoch
            replica = is_replica(self._request)
        is_denied = answer is not None or self._cut is not None
        # With a denied topic it would not be the session that the client knows, which gets an error once.
        if epoch > 0 and (is_denied or not session_id or not self._stage.knows(client, session_id, replica)):
            self._cut = None
            _opened(client).fetch = None
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch == BEGINS and is_denied and answer is None:
            asked = yield from request.read(FetchRequest)
            request.replace(replace_fields(asked, session_epoch=NO_SESSION))
        elif epoch == BEGINS and not is_denied:
            self._begins = _terms(self._rules, client, replica)
        return answer

    def response(self, response: OpenMessage) -> Steps[None]:
        if self._begins is None:
            yield from super().response(response)
            return
        frame = yield from response.frame()
        body_at = response_body_at(ApiKey.FETCH, self._version, frame)
        if len(frame) >= body_at + _FETCHED.size:
            _, error_code, session_id = _FETCHED.unpack_from(frame, body_at)
            _opened(self._client).fetch = (session_id, self._begins) if error_code == ErrorCode.NONE else None


def _key(group: str | None, member: str | None) -> bytes:
    """That of a share session, whatever bytes the client names."""
    return f"{group}\0{member}".encode("utf-8", "surrogateescape")


class CheckSharedRun(CheckRun):
    """One ShareFetch or ShareAcknowledge and its response."""

    __slots__ = ("_begins", "_session")

    def __init__(self, rules: Rules, key: int, api: CheckedApi, client: Client, version: int) -> None:
        super().__init__(rules, key, api, client, version)
        self._session = b""
        self._begins: Terms | None = None  # under which a session begins

    @property
    def wants_response(self) -> bool:
        return self._key == ApiKey.SHARE_FETCH or super().wants_response

    def request(self, request: OpenMessage) -> Steps[Message | None]:
        answer = yield from super().request(request)
        asked, terms = self._request, _terms(self._rules, self._client)
        if getattr(answer, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
            return answer  # of the group
        self._session = blake2b(_key(asked.group_id, asked.member_id), digest_size=16).digest()
        if asked.share_session_epoch == BEGINS:
            self._begins = terms
        elif not self._knows(asked.share_session_epoch, terms):
            self._cut = None
            return replace_fields(self._api.response(), error_code=ErrorCode.SHARE_SESSION_NOT_FOUND)
        return answer

    def _knows(self, epoch: int, terms: Terms) -> bool:
        """Whether a session was begun here. Who has begun it may end it, whatever the rules are now."""
        opened = client.opened if isinstance((client := self._client).opened, Opened) else Opened()
        return any(
            session == self._session and (of == terms or (epoch == ENDS and of.principal == terms.principal))
            for session, of in opened.share
        )

    def response(self, response: OpenMessage) -> Steps[None]:
        if self._key == ApiKey.SHARE_FETCH:
            answered = yield from response.read(ShareFetchResponse)
            if self._begins is not None and answered.error_code == ErrorCode.NONE:
                opened = _opened(self._client)
                others = [one for one in opened.share if one[0] != self._session]
                opened.share = (*others, (self._session, self._begins))[-MAX_SHARE_SESSIONS:]
            ids = yield from offload(partial(self._unknown_ids, answered.responses), response.elements)
            yield from resolve(ids, self._rules.name_of)
            denied: list[Rejection] = []
            shown = yield from offload(partial(self._shown_topics, answered.responses, denied), response.elements)
            self._rules.denials.record(self._key, denied, self._client)
            if shown is not None:
                response.replace(replace_fields(answered, responses=shown))
        if self._cut is not None:
            yield from super().response(response)

    def _unknown_ids(self, topics: Iterable[ShareFetchableTopicResponse]) -> list[bytes]:
        return [topic.topic_id for topic in topics if self._rules.name_of(topic.topic_id) is None]

    def _shown_topics(
        self, topics: tuple[ShareFetchableTopicResponse, ...], denied: list[Rejection]
    ) -> tuple[ShareFetchableTopicResponse, ...] | None:
        """What the client gets in place of these; None: the same."""
        shown = tuple(self._shown_topic(topic, denied) for topic in topics)
        return None if all(one is other for one, other in zip(shown, topics, strict=True)) else shown

    def _shown_topic(self, topic: ShareFetchableTopicResponse, denied: list[Rejection]) -> ShareFetchableTopicResponse:
        """Another client can have added topics to the session, under its rights."""
        why = self._rules.check(self._key, on_topic(Operation.READ, topic.topic_id), self._client.principal)
        if why is None:
            return topic
        denied.append(why)
        message = explained(why).message
        hidden = {"records": b"", "acquired_records": (), "error_code": why.error_code, "error_message": message}
        partitions = (
            replace_fields(one, **hidden) if one.records or one.acquired_records else one for one in topic.partitions
        )
        return replace_fields(topic, partitions=tuple(partitions))
