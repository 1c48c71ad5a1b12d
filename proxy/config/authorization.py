"""The section of who may do what."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from kafka_sidecar.proxy.config.sections import Section

OperationName = Literal[
    "all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"
]


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

    @model_validator(mode="after")
    def _check(self) -> AclRule:
        if not self.topics and not self.groups:
            raise ValueError('topics and groups are missing: name some, such as topics: ["orders-*"]')
        return self


class Authorization(Section):
    rules: list[AclRule] = []  # noqa: RUF012
    """Who may do what. Default: everyone everything, as far as the brokers allow it."""
    default: Literal["allow", "deny"] = "allow"
    """What applies to topics and groups that no rule names. Kafka: `allow.everyone.if.no.acl.found`."""
    super_users: list[str] = []  # noqa: RUF012
    """Principals that may do everything. Kafka: `super.users`."""

    @property
    def is_set(self) -> bool:
        return bool(self.rules) or self.default == "deny"
