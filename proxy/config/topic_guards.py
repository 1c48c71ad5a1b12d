"""The entries of ``topic_guards:``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.proxy.config.types import PrincipalPattern, Section, TopicPattern

Choice = Literal["allow", "deny"]
EVERYTHING = "*"


def _check_order(of: Any, low: float | None, high: float | None) -> Any:
    if low is not None and high is not None and low > high:
        raise ValueError(f"no value is from {low} to {high}: write min below max")
    return of


def _texts(value: object) -> object:
    """Values as a client writes them: of YAML's ``[2, true]`` as well."""
    if not isinstance(value, list):
        return value
    return [str(one).lower() if isinstance(one, bool) else str(one) if isinstance(one, int) else one for one in value]


class CountRange(Section):
    """A whole number that a topic may have, both ends among them."""

    min: int | None = Field(default=None, ge=1)
    """The lowest number. Default: none."""
    max: int | None = Field(default=None, ge=1)
    """The highest number. Default: none."""

    @model_validator(mode="after")
    def _check(self) -> CountRange:
        return _check_order(self, self.min, self.max)  # type: ignore[no-any-return]


class GuardedConfig(Section):
    """A config of topics: what it may be set to. Without settings: to anything."""

    min: int | float | None = None
    """The lowest number; a value that is no number is refused."""
    max: int | float | None = None
    """The highest number; a value that is no number is refused."""
    values: Annotated[
        list[str] | None,
        BeforeValidator(_texts),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "array", "minItems": 1, "items": {"type": ["string", "integer", "boolean"]}},
                    {"type": "null"},
                ],
            }
        ),
    ] = Field(default=None, min_length=1)
    """The texts that it may be; of lists such as `compact,delete` the order does not count. Default: any."""
    required: bool = False
    """Whether a topic has to be created with it; then it cannot be taken away either."""

    @model_validator(mode="after")
    def _check(self) -> GuardedConfig:
        if self.values is not None and (self.min is not None or self.max is not None):
            raise ValueError("values and min or max exclude each other: write one of them")
        return _check_order(self, self.min, self.max)  # type: ignore[no-any-return]


class TopicGuard(Section):
    """What clients may ask for when they create, alter and delete topics. The first entry that matches applies."""

    topics: list[TopicPattern] = Field(default=[EVERYTHING], min_length=1)
    """Names of the topics; `*` matches any characters, `?` any one character."""
    principals: list[PrincipalPattern] = Field(default=[EVERYTHING], min_length=1)
    """Whose requests; a client without a login is `User:ANONYMOUS`, one whose name only the broker knows
    `Unknown:login`. Default: everyone's."""
    mode: Literal["enforce", "shadow"] = "enforce"
    """Whether what does not comply is refused, or only counted and logged."""
    create: Choice = "allow"
    """Whether such topics may be created."""
    delete: Choice = "allow"
    """Whether they may be deleted."""
    naming: str | None = Field(default=None, min_length=1)
    """A regular expression (RE2) that the whole name of a new topic has to match. Default: any name."""
    partitions: CountRange = Field(default_factory=CountRange)
    """How many partitions a topic may have, at its creation; `max` also when partitions are added."""
    replication_factor: CountRange = Field(default_factory=CountRange)
    """How many replicas each partition of a new topic may have."""
    configs: dict[str, GuardedConfig] = Field(default_factory=dict)
    """Configs of topics, by their names: what each may be."""
    other_configs: Choice = "allow"
    """Whether configs may be set that `configs` does not name."""

    @model_validator(mode="after")
    def _check(self) -> TopicGuard:
        if "" in self.configs:
            raise ValueError(f"{quote('')} is no config: write its name, such as retention.ms")
        return self
