"""One moment of one process as JSON values: its metrics, its state, and what a reader asks for beside them.

Nothing is sampled without a reader.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import describe_waiting, first_to_show
from kafka_sidecar.proxy.server.admin.effective import configuration_hash, describe_topic
from kafka_sidecar.proxy.server.admin.readiness import verbose_readiness
from kafka_sidecar.proxy.server.admin.rejections import latest
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.logs import timestamp
from kafka_sidecar.proxy.telemetry.metrics import Durations, Family

if TYPE_CHECKING:
    from kafka_sidecar.proxy.server.admin.live.groups import ConnectionGroups
    from kafka_sidecar.proxy.server.admin.live.traffic import Traffic

ENGINE = "engine"  # the group of the metrics that are no feature's
TOPIC = "topic"  # the label of metrics that are counted by topic
MAX_SERIES, MIN_SERIES = 2000, 50  # of one metric, the latter where all together have more than the next
MAX_ALL_SERIES = 10_000  # each takes some 2 us of the event loop when it moves
MAX_ROWS = 200  # of connections, topics and lists of a feature: each takes some 20 us of the event loop
MAX_NAMED = 20  # connections that wait for memory
WAITS_FOR_MEMORY = "connections.max_buffered"
VALIDATION = ("record.validation.policy", "mode", "percent", "source", "hash", "why")

_BEGAN = time.monotonic()  # this process, nearly: it imports this before it serves

STATE = "state"  # what every snapshot has
TRAFFIC = "traffic"  # a group of metrics in it, which are counted only while a reader wants them
PARTS = ("topics", "connections", "rejections", TRAFFIC)  # what a reader asks for beside it
READING = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})  # the APIs of a consumer

Sample = dict[str, Any]


class Samples:
    """Takes them, of one process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._traffic: Traffic | None = None  # once a reader has wanted it
        self._groups: ConnectionGroups | None = None
        self._hash: tuple[Config, str] | None = None  # of the configuration that applies
        self._counted: set[str] = set()  # the topics that the last metrics name
        self._parts: Mapping[str, Callable[[], Awaitable[Any]]] = {
            "topics": self._topics,
            "connections": self._connections,
            "rejections": self._rejections,
        }

    async def take(self, wanted: Iterable[str]) -> Sample:
        """This moment. ``wanted``: `STATE`, and names of `PARTS`."""
        sample = self._state(TRAFFIC in wanted) if STATE in wanted else {}
        return {**sample, **{part: await take() for part, take in self._parts.items() if part in wanted}}

    def _state(self, with_traffic: bool) -> Sample:
        metrics = _metrics(self._families())
        self._counted = _counted_topics(metrics)
        if with_traffic:
            metrics |= _metrics([(TRAFFIC, self._count_traffic())])
        return {
            "at": time.monotonic(),
            "process": _process(),
            "sidecar": self._sidecar(),
            "metrics": metrics,
            "features": {name: _cut(one.state()) for name, one in self._server.features.made.items()},
        }

    def _families(self) -> Iterator[tuple[str, Iterable[Family]]]:
        """Those of the engine, and of each feature."""
        from kafka_sidecar.proxy.server.admin.exposition import engine_families

        server = self._server
        features = server.features
        own = [families() for families in server.metrics.features if families != features.families]
        threads = features.site.performer.threads.families()
        yield ENGINE, chain(engine_families(server.metrics), threads, *own)
        for name, feature in features.made.items():
            yield name, feature.families()

    def _sidecar(self) -> dict[str, Any]:
        server = self._server
        state = verbose_readiness(server)
        memory = server.memory
        return {
            "ready": state["ready"],
            "reasons": list(_why_not_ready(server, state)),
            "draining": not server.listening,
            "configuration": {
                "hash": self._configuration_hash(),
                "generation": server.metrics.config_generation,
                **state["configuration"],
            },
            "connections": {"open": len(server.connections), "topics_known": len(server.topics)},
            "memory": {
                "buffered_bytes": memory.spent,
                "limit_bytes": memory.limit,
                "waiting": memory.waiting,
                "waiting_connections": _waiting_for_memory(server) if memory.waiting else [],
            },
            "listeners": [
                {"listener": name, "addresses": ", ".join(addresses)} for name, addresses in state["listeners"].items()
            ],
            "nodes": [{"node": int(node), **one} for node, one in state["nodes"].items()],
            "brokers": {**state["brokers"], "login": state["broker_login"]},
        }

    def _configuration_hash(self) -> str:
        applied = self._server.features.applied
        if self._hash is None or self._hash[0] is not applied:
            self._hash = applied, configuration_hash(self._server)
        return self._hash[1]

    def _count_traffic(self) -> Iterable[Family]:
        """What has passed by topic: counted from the first sample that wants it."""
        if self._traffic is None:
            from kafka_sidecar.proxy.server.admin.live.traffic import Traffic

            self._traffic = Traffic(self._server)
        self._traffic.look()
        return self._traffic.families()

    async def _rejections(self) -> list[Any]:
        return latest(self._server)

    async def _connections(self) -> dict[str, Any]:
        """The ones that wait, then the newest; and those that have ended last."""
        server = self._server
        groups = self._learn_groups()
        first = await first_to_show(server.connections, MAX_ROWS)
        rows = [{**describe_waiting(one), "group": _group_of(groups, one)} for one in first]
        closed = [{**row, "group": groups.of(row["session"], None, None, False)} for row in closed_rows(server)]
        return {"open": len(server.connections), "rows": rows, "closed": closed}

    def _learn_groups(self) -> ConnectionGroups:
        """The groups of connections: learned from the first sample that wants them."""
        if self._groups is None:
            from kafka_sidecar.proxy.server.admin.live.groups import ConnectionGroups

            self._groups = ConnectionGroups(self._server)
        self._groups.look()
        return self._groups

    async def _topics(self) -> dict[str, Any]:
        """Those that something has happened to, those of the file, then the others by name."""
        server = self._server
        configured = (one.name for one in server.features.applied.topics)
        known, first = (
            server.topics.names,
            dict.fromkeys(filter(is_topic_name, chain(sorted(self._counted), configured))),
        )
        if self._traffic is not None:  # then those that are used
            first |= dict.fromkeys(filter(is_topic_name, self._traffic.topics[:MAX_ROWS]))
        others = nsmallest(MAX_ROWS, known.difference(first))
        return {
            "known": len(known) + sum(name not in known for name in first),
            "rows": [_topic(server, name) for name in islice(chain(first, others), MAX_ROWS)],
        }


def _counted_topics(groups: Mapping[str, Iterable[Mapping[str, Any]]]) -> set[str]:
    """Those that something has happened to."""
    topics: set[str] = set()
    for family in chain.from_iterable(groups.values()):
        if TOPIC in family["labels"]:
            at = family["labels"].index(TOPIC)
            topics.update(of[at] for of, _ in family["samples"])
    return topics


def own_sample(families: Iterable[Family]) -> Sample:
    """This moment of a process that serves no clients, with its metrics alone."""
    return {"at": time.monotonic(), "process": _process(), "metrics": _metrics([(ENGINE, families)])}


def _metrics(groups: Iterable[tuple[str, Iterable[Family]]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    room = MAX_ALL_SERIES
    for group, families in groups:
        found[group] = []
        for family in families:
            one = _family(family, min(MAX_SERIES, max(MIN_SERIES, room)))
            found[group].append(one)
            room -= len(one["samples"])
    return found


def _family(family: Family, most: int) -> dict[str, Any]:
    first = islice(family.samples.items(), most)
    samples = [(of, _durations(value)) for of, value in first] if family.kind == "histogram" else list(first)
    return {
        "name": family.name,
        "kind": family.kind,
        "about": family.about,
        "labels": list(family.labels),
        "samples": samples,
        "left": len(family.samples) - len(samples),
    }


def _durations(value: float | Durations) -> Any:
    assert isinstance(value, Durations)
    return {"counts": [[bits, count] for bits, count in enumerate(value.counts) if count], "total_s": value.total_s}


@cache
def _build() -> Mapping[str, str]:
    return {"version": __version__, "python": platform.python_version(), "build": compiled.in_use()}


def _process() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        **_build(),
        "cpu_s": time.process_time(),
        "uptime_s": round(time.monotonic() - _BEGAN, 3),
        "memory_bytes": _memory(),
    }


def _memory() -> int | None:
    """Resident bytes; None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - a file of the kernel: it does not block
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def _why_not_ready(server: Server, state: Mapping[str, Any]) -> Iterator[str]:
    if not server.listening:
        yield "the sidecar drains"
    if not state["cluster_reached"]:
        yield f"no broker has responded yet: {server.last_metadata}"
    if server.broker_logins is not None and server.broker_logins.failure is not None:
        yield f"the brokers do not let the sidecar in: {server.broker_logins.failure}"
    if state["connects_to_itself"]:
        yield "a bootstrap server leads back to this sidecar"
    if state["topic_configs"] not in ("disabled", "ready"):
        yield f"topic configs: {state['topic_configs']}"


def _waiting_for_memory(server: Server) -> list[int]:
    waiting = (one.number for one in server.connections if WAITS_FOR_MEMORY in one.client.reasons | _of_broker(one))
    return sorted(islice(waiting, MAX_NAMED))


def _of_broker(connection: Connection) -> frozenset[str]:
    return connection.broker.reasons if connection.broker is not None else frozenset()


def closed_rows(server: Server) -> list[dict[str, Any]]:
    """The connections that have ended last, the last one first."""
    return [{"ended": timestamp(at), **keys} for at, keys in reversed(server.closed)]


def _group_of(groups: ConnectionGroups, connection: Connection) -> str | None:
    session = connection.session
    reads = any(one[0].key in READING for one in session.recorder)
    return groups.of(connection.number, session.client_id, session.host, reads)


def _topic(server: Server, name: str) -> dict[str, Any]:
    topic = describe_topic(server, name)
    validation = topic["validation"]
    return {
        "topic": name,
        "topic_id": topic["topic_id"],
        "validation": {key: validation[key] for key in VALIDATION if key in validation},
        "interceptors": [one["name"] for one in topic["interceptors"]],
        "features": topic["features"],
    }


def _cut(state: Mapping[str, Any]) -> dict[str, Any]:
    """Of each list as many rows as are shown; then the number of the rest is beside it."""
    cut = {key: value[:MAX_ROWS] if isinstance(value, list) else value for key, value in state.items()}
    left = {
        f"{key} not shown": len(value) - MAX_ROWS
        for key, value in state.items()
        if isinstance(value, list) and len(value) > MAX_ROWS
    }
    return {**cut, **left}
