"""Open connections as JSON, and the last requests of one."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from operator import attrgetter
from typing import Any

from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import describe_open, describe_request, recorded
from kafka_sidecar.proxy.server.server import Server

MAX_LISTED = 200  # each takes some 10 us of the event loop
FILTERS = ("client", "client_id", "listener")  # the client's address with or without its port


def list_connections(server: Server, query: Mapping[str, str]) -> dict[str, Any]:
    """The newest open connections that have the values of the query."""
    wanted = {name: query[name] for name in FILTERS if name in query}
    found = [one for one in server.connections if _matches(one, wanted)] if wanted else server.connections
    newest = nlargest(MAX_LISTED, found, attrgetter("number"))
    return {"open": len(server.connections), "connections": list(map(describe_open, newest))}


def show_connection(server: Server, number: str) -> dict[str, Any] | None:
    """An open connection with its last requests, oldest first; None if it is not open."""
    found = next((one for one in server.connections if str(one.number) == number), None)
    if found is None:
        return None
    return {"connections": [{**describe_open(found), "last_requests": list(map(describe_request, recorded(found)))}]}


def _matches(connection: Connection, wanted: Mapping[str, str]) -> bool:
    have = {
        "client": (connection.ip, connection.peer),
        "client_id": (connection.session.client_id,),
        "listener": (connection.listener,),
    }
    return all(value in have[name] for name, value in wanted.items())
