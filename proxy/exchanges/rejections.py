"""Errors for requests, and for elements of requests, that do not reach the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka_sidecar.codec.message import Struct

ANONYMOUS = "User:ANONYMOUS"  # a client that has not logged in, as in Kafka
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32  # Kafka's ConfigResource.Type


@dataclass(frozen=True, slots=True)
class Rejection:
    """The error that a client gets for a request, or for an element of one."""

    error_code: int
    message: str


def reject_resource(result: Callable[..., Struct], of: Any, why: Rejection) -> Struct:
    """The result of a resource, in an API that sets configs."""
    return result(
        error_code=why.error_code,
        error_message=why.message,
        resource_type=of.resource_type,
        resource_name=of.resource_name,
    )
