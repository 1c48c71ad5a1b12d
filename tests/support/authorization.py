"""What alice may do, and her requests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.exchanges.messages import MessageStage
from kafka_sidecar.proxy.features.authorization.acls import Acls
from kafka_sidecar.proxy.features.authorization.authorization import Authorization, rules_of
from kafka_sidecar.proxy.features.denials import Denials
from support.client import FakeClient
from support.driven import Driven, driven

TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED = 29, 30, 31, 53
DENIED = {TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TRANSACTION_DENIED}
EXPLAINED = re.compile(r"(.*) \(kafka-sidecar explain ([0-9a-f]{6}-[0-9a-f]{10})\)", re.DOTALL)
IDS = {"open": b"o" * 16, "closed": b"c" * 16}
RULES = [AclRule(principals=["User:alice"], topics=["open"], groups=["open"], transactional_ids=["open"])]


def pairs(*keys: ApiKey) -> list[tuple[ApiKey, int]]:
    newest = {  # that kio knows
        ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.DELETE_GROUPS: 2, ApiKey.STREAMS_GROUP_HEARTBEAT: 0,
        ApiKey.STREAMS_GROUP_DESCRIBE: 0, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 0,
    }  # fmt: skip
    return [
        (key, version)
        for key in keys
        for version in range(APIS[key].min_version, newest.get(key, APIS[key].max_version) + 1)
    ]


class Site:
    """What alice may do."""

    def __init__(self, principal: str | None = "User:alice", rules: Sequence[AclRule] = RULES) -> None:
        self.denied: Counter[tuple[str, str, str]] = Counter()
        self.denials = Denials(self.denied, lambda: 1_700_000_000.0)
        names = {topic_id: name for name, topic_id in IDS.items()}
        acls = Acls(rules_of(rules), allowed_by_default=False)
        self.rules = Authorization(acls, None, names.get, self.denials)
        self.client = FakeClient()
        self.client.principal = principal

    @property
    def counts(self) -> dict[str, int]:
        """Denied resources, by API."""
        return by_api(self.denied)

    def exchange(self, key: int, version: int) -> Driven:
        found = driven(*self.stages(key), version=version, client=self.client)
        assert found is not None
        return found

    def stages(self, key: int) -> list[MessageStage]:
        """Those of an API."""
        if key == ApiKey.FETCH:
            assert self.rules.fetch is not None
            return [self.rules.fetch]
        return [self.rules.stages()[key]]


def by_api(denied: Counter[tuple[str, str, str]]) -> dict[str, int]:
    """How many resources were denied in requests of each API."""
    return dict(sum((Counter({api: number}) for (api, *_), number in denied.items()), Counter[str]()))


def codes_in(value: Any) -> set[int]:
    """Every error code in a response that is not 0."""
    if isinstance(value, tuple):
        return {code for one in value for code in codes_in(one)}
    if not is_dataclass(value):
        return set()
    own = {int(getattr(value, name, 0)) for name in ("error_code", "partition_error_code")} - {0}
    if own & DENIED and hasattr(value, "error_message"):
        without_id(value.error_message)
    return own | {code for field in fields(value) for code in codes_in(getattr(value, field.name))}


def without_id(message: str) -> str:
    """The message of a denial, which ends with what an operator calls."""
    found = EXPLAINED.fullmatch(message)
    assert found is not None, message
    return found[1]


def ids_in(value: Any) -> set[str]:
    """The ids of denials in the messages of a response."""
    if isinstance(value, tuple):
        return {found for one in value for found in ids_in(one)}
    if not is_dataclass(value):
        return set()
    found = EXPLAINED.fullmatch(getattr(value, "error_message", None) or "")
    own = {found[2]} if found is not None else set()
    return own | {one for field in fields(value) for one in ids_in(getattr(value, field.name))}
