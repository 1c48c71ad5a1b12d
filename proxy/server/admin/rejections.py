"""Rejected batches, and what rules deny, as JSON: the list, and all that is known of one (design D12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from kafka_sidecar.proxy.server.server import Server

MAX_LISTED = 100
MAX_STORED = 1000  # of each feature, as each stores
FILTERS = ("topic", "policy", "reason", "principal", "client_id", "client")
NO_QUERY: Mapping[str, str] = {}


def list_rejections(server: Server, query: Mapping[str, str] = NO_QUERY) -> dict[str, Any]:
    """The last rejected batches and denials that have the values of a query, newest first."""
    wanted = {name: query[name] for name in FILTERS if name in query}
    number = MAX_STORED if wanted else MAX_LISTED
    found = (row for row in _newest(server, number) if all(row[name] == value for name, value in wanted.items()))
    return {"rejections": list(islice(found, MAX_LISTED))}


def latest(server: Server) -> list[dict[str, Any]]:
    """The last ones of all."""
    return list(islice(_newest(server, MAX_LISTED), MAX_LISTED))


def _newest(server: Server, number: int) -> Iterator[dict[str, Any]]:
    """With whose they are."""
    found = (one.rows(number) for one in server.features.rejections)
    return merge(*found, key=itemgetter("timestamp"), reverse=True)


def explain_rejection(server: Server, rejection_id: str) -> dict[str, Any] | None:
    """All that is known of one rejected batch or denial; None if it is not known."""
    found = (one.explain(rejection_id) for one in server.features.rejections)
    return next(filter(None, found), None)


def why_unknown(server: Server, rejection_id: str) -> str:
    """Why nothing is known of an id."""
    prefixes = [f"{one.prefix}-" for one in server.features.rejections]
    if not prefixes:
        return "this sidecar validates nothing and denies nothing"
    if rejection_id.startswith(tuple(prefixes)):
        return f"only the last {MAX_STORED} rejections of each kind are stored, and this one is older"
    own = " or ".join(prefixes)
    return f"it is not from this process, whose ids begin with {own}: another sidecar's, or before a restart"
