"""Whose request it is, as stages are shown it."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.plugins.values import UNKNOWN, Context
from kafka_sidecar.proxy.relay.exchange import Client


def client_context(
    clock: Callable[[], int], client: Client, version: int, generation_id: int = UNKNOWN, **of_request: str | None
) -> Context:
    """The context of one request.

    Args:
        clock: ms since 1970.
        of_request: what the request says of its group, by the fields of `Context`.
    """
    return Context(
        clock, client.number, client.client_id, client.client_software, client.principal, api_version=version,
        generation_id=generation_id, host=client.host, **of_request,
    )  # fmt: skip
