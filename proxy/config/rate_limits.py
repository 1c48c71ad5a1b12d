"""The section `rate_limits` of the configuration file."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.types import PrincipalPattern, Section, TopicPattern, duration_field

PerName = Literal["topic", "client_id", "principal"]
RATES = ("produce_bytes", "consume_bytes", "produce_records", "consume_records", "requests")
REJECTABLE = ("produce_bytes", "produce_records")


class RateLimit(Section):
    """One rate limit; a client is held to all that match. Kafka's counterpart: client quotas (KIP-13, KIP-124)."""

    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,64}$")
    """Its name in metrics, log lines and error messages: letters, digits, `.`, `_` and `-`."""
    topics: list[TopicPattern] = []  # noqa: RUF012 - pydantic copies it
    """Topics that it counts; `*` matches any characters, `?` any one character. Default: all."""
    client_ids: list[str] = []  # noqa: RUF012
    """Client ids that it is for, with `*` and `?`. Default: all."""
    principals: list[PrincipalPattern] = []  # noqa: RUF012
    """Principals that it is for, with `*` and `?`; a client without a login is `User:ANONYMOUS`. Default: all."""
    per: list[PerName] = []  # noqa: RUF012
    """What has the rates for itself: each `topic`, `client_id` or `principal`, or each combination of several.
    Default: all that matches has them together."""
    produce_bytes: Size | None = Field(default=None, ge=1)
    """Bytes a second that clients produce: of batches as they send them. Kafka: `producer_byte_rate`."""
    consume_bytes: Size | None = Field(default=None, ge=1)
    """Bytes a second that clients consume: of batches as they get them. Kafka: `consumer_byte_rate`."""
    produce_records: int | None = Field(default=None, ge=1)
    """Records a second that clients produce."""
    consume_records: int | None = Field(default=None, ge=1)
    """Records a second that clients consume."""
    requests: int | None = Field(default=None, ge=1)
    """Requests a second, of all APIs but ApiVersions and logins; with topics, only Produce, Fetch and ShareFetch."""
    burst: Duration = duration_field("1s", gt=0)
    """How many seconds' worth may come at once. Kafka: `quota.window.size.seconds`."""
    max_wait: Duration = duration_field("10s", gt=0, le=300)
    """How long a client waits at a time at most; the rest of what it owes counts for its next request. Where many
    connections share a rate, it holds for as many as it lets through in this time."""
    action: Literal["throttle", "reject"] = "throttle"
    """What becomes of a client that is over the rate: it waits, or what it produces is rejected."""

    @model_validator(mode="after")
    def _check(self) -> RateLimit:
        rates = [name for name in RATES if getattr(self, name) is not None]
        if not rates:
            raise ValueError(f"limits nothing: set one of {', '.join(RATES)}")
        waiting = [name for name in rates if name not in REJECTABLE]
        if self.action == "reject" and waiting:
            raise ValueError(
                f"{waiting[0]} cannot be rejected, only what is produced: use action: throttle, or a limit of its own"
            )
        return self


def _check_names(limits: list[RateLimit]) -> list[RateLimit]:
    for name, count in Counter(limit.name for limit in limits).items():
        if count > 1:
            raise ValueError(f"{count} limits have the name {name}: give each its own, their metrics would be the same")
    return limits


RateLimits = Annotated[list[RateLimit], AfterValidator(_check_names)]
