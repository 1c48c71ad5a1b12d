"""The section of who may do what."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.proxy.config.sections import Section

OperationName = Literal[
    "all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs",
    "cluster_action", "idempotent_write",
]  # fmt: skip


_API_NAMES = frozenset(api.name for api in APIS.values())


def _known(name: str) -> str:
    if name not in _API_NAMES:
        raise ValueError(f"unknown API {name}: use the names of Kafka's protocol, such as DeleteTopics")
    return name


ApiName = Annotated[str, Field(json_schema_extra={"enum": sorted(_API_NAMES)}), AfterValidator(_known)]


class AclRule(Section):
    """One rule, as one of Kafka's ACLs."""

    principals: list[str] = Field(default=["User:*"], min_length=1)
    """Who it is for, with `*` and `?`; a client without a login is `User:ANONYMOUS`."""
    permission: Literal["allow", "deny"] = "allow"
    """Whether they may. A deny wins over every allow."""
    operations: list[OperationName] = Field(default=["all"], min_length=1)
    """What: Kafka's operations. `read`, `write`, `delete` and `alter` allow `describe` too."""
    topics: list[str] = []  # noqa: RUF012 - pydantic copies it
    """With which topics, with `*` and `?`."""
    groups: list[str] = []  # noqa: RUF012
    """With which consumer groups, with `*` and `?`."""
    transactional_ids: list[str] = []  # noqa: RUF012
    """With which transactional ids, with `*` and `?`."""
    cluster: bool = False
    """With the cluster as a whole: its configs, quotas, ACLs, users, replicas. Kafka: `--cluster`."""
    apis: list[ApiName] = []  # noqa: RUF012
    """Only in requests of these APIs, such as `DeleteTopics`. Default: of all."""

    @model_validator(mode="after")
    def _check(self) -> AclRule:
        if not (self.topics or self.groups or self.transactional_ids or self.cluster):
            raise ValueError(
                'topics, groups, transactional_ids and cluster are missing: name one, such as topics: ["orders-*"]'
            )
        return self


class Authorization(Section):
    rules: list[AclRule] = []  # noqa: RUF012
    """Who may do what. Default: everyone everything, as far as the brokers allow it."""
    default: Literal["allow", "deny"] = "allow"
    """What applies where no rule names the topic, group, transactional id or cluster.
    Kafka: `allow.everyone.if.no.acl.found`."""
    super_users: list[str] = []  # noqa: RUF012
    """Principals that may do everything. Kafka: `super.users`."""

    @property
    def is_set(self) -> bool:
        return bool(self.rules) or self.default == "deny"
