"""Listeners, connections, start and drain: the sidecar composed of all other folders (design D13)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import socket
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial, reduce
from typing import Any

from kafka_sidecar.codec.apis import APIS
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.principal_rules import parse_rules
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.nodes.addresses import Addresses, Node, load_brokers, save_brokers
from kafka_sidecar.proxy.nodes.metadata_client import (
    FAILURES,
    Address,
    BootstrapServers,
    MetadataClient,
    OwnConnections,
    listener_among,
)
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response, own_versions
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Begin, Closing, TopicIds, TopicNames
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.relay.responses import Recorded
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.relay.watch_pairs import in_turn
from kafka_sidecar.proxy.runtime.admission import (
    Admission,
    bind_socket,
    connections_that_fit,
    default_max_buffered,
)
from kafka_sidecar.proxy.runtime.connection import Connection
from kafka_sidecar.proxy.runtime.connection_state import closed_keys, end_keys, end_kind
from kafka_sidecar.proxy.runtime.dialer import REJECTED_LOGIN, Dial, Dialer, LastAttempts
from kafka_sidecar.proxy.runtime.listener import Listener
from kafka_sidecar.proxy.runtime.logins import Failures, LoginDriver, Verifications
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.sweep import Sweep, finish_connections
from kafka_sidecar.proxy.runtime.tasks import Paced, spawn, stop
from kafka_sidecar.proxy.runtime.threads import Threads, Watchdog
from kafka_sidecar.proxy.runtime.tls_listener import STARTED_PER_TURN, TlsListener, principal_by
from kafka_sidecar.proxy.security.sasl.broker_logins import open_broker_logins, open_logins_by_principal
from kafka_sidecar.proxy.security.sasl.client_login import FreshKeys
from kafka_sidecar.proxy.security.sasl.client_logins import open_client_logins, reject_client_logins
from kafka_sidecar.proxy.security.sasl.conversation import LoginTokens
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.security.tls.live_tls import TlsSides, families_of_tls
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter, write_held_back
from kafka_sidecar.proxy.telemetry.metrics import Family, Metrics

log = logging.getLogger(__name__)

BOOTSTRAP = "bootstrap"
FIRST_RETRY_S = 0.5
NODE_WAIT_S = 1.0  # for one broker: clients find out about its successor from the others
FINISH_S = 5.0  # the end of a drain, in which no more requests are read
DRAIN = Closing("drain", "the sidecar stops")
Record = Callable[[Recorded], None]
METADATA_RECEIVED = "received"
METADATA_LINE_S = 60.0  # between two lines about metadata requests that fail; longer than that is an error
LOG_EVERY_S = 10.0  # one line of a kind
MAX_CLOSED = 200  # connections that have ended and are shown
ENDS_PER_TURN = 50  # of one side of a connection, in one turn of the event loop: each takes some 25 us
LOGGED_PER_TURN = 100  # ends of connections: each takes some 20 us
NORMAL_CAUSES = frozenset({"client_closed", "broker_closed", "drain", "idle", "max_age"})  # logged as info


class Server:
    """One sidecar process. `start`, then `drain`."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self.config = config
        self.metrics = metrics
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.connected = Counter[str]()  # how many there are, by listener
        self.closed: deque[tuple[float, dict[str, Any]]] = deque(maxlen=MAX_CLOSED)  # when (since 1970), and their keys
        self.listening = False
        self.record_requests: Callable[[Session, Record], Record] | None = None  # besides the flight recorder
        self._on_connection: Callable[[Connection, Closing | None], None] | None = None
        self.last_metadata = "not requested yet"  # what became of the sidecar's own last request
        self._bind_host = host_port(config.listen)[0]
        self.tls = TlsSides(config)
        self._servers = BootstrapServers(host_port(address) for address in config.bootstrap_servers)
        self.addresses = Addresses(
            config.advertised_host, config.first_node_port, config.nodes.ports, self._listen_for_node, time.monotonic
        )
        self.attempts = LastAttempts(time.time)
        limits = config.connections
        self.own = OwnConnections()
        self.broker_logins = open_broker_logins(config, metrics.broker_logins)
        self._logins_by_principal = open_logins_by_principal(config, self.broker_logins, metrics.broker_logins)
        access = BrokerAccess(limits.source_address, self.tls.brokers, self.broker_logins)
        timeout_s = limits.connect_timeout
        self._cluster = MetadataClient(
            self._candidates, self.record_attempt, self._reached, self.own, access, timeout_s
        )
        self._lines = LogLimiter(LOG_EVERY_S, time.monotonic)
        self._ends = Paced(ENDS_PER_TURN)
        self._logged = Paced(LOGGED_PER_TURN)
        self._dialer = Dialer(self, self._lines, access, timeout_s)
        self._admission = Admission(limits.max_connections or connections_that_fit(), limits.max_connections_per_ip)
        self.memory = self._open_memory()
        self.topics = TopicNameCache(self._cluster.topic_names)
        self._budget = LoopBudget()
        self._performer = self._open_performer()
        self.features = Features(config, metrics, self.topics, self._cluster, self._performer, access)
        self._watchdog = Watchdog(self._performer.threads, metrics.record_loop_delay)
        metrics.features += [self._tls_metrics, self._watchdog.families]
        self._client_logins = open_client_logins(config, lambda *asked: own_versions(self._cluster.offered, *asked))
        if self._client_logins is not None:
            metrics.features.append(self._client_logins.families)
        self._taps: list[Callable[[int, int], Tap | None]] = []
        self._routes = self._open_routes()
        self._listeners: dict[str, Listener] = {}
        self._handshakes = Paced(STARTED_PER_TURN)
        self._verifications = Verifications()
        self._failed_logins = Failures(time.monotonic)
        self._numbers = itertools.count(config.worker.number, config.worker.count)
        self._tasks: list[asyncio.Task[None]] = []
        self._versions_known = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def _open_memory(self) -> MemoryBudget:
        whole = self.config.connections.max_buffered or default_max_buffered(self.config.process_count)
        return MemoryBudget(self.config.share(whole), self.metrics.buffered)

    def _open_performer(self) -> Performer:
        performer = Performer(self._budget, Threads(self.config.threads.count))
        performer.add(TopicNames, self._learn_names)
        performer.add(TopicIds, self._find_ids)
        performer.add(LoginTokens, lambda need: need.credentials.tokens())
        performer.add(FreshKeys, lambda need: need.login.refresh_keys())
        return performer

    def _open_routes(self) -> Routes:
        rewrites = Rewrites(self.addresses.local_address, self.topics.learn)
        relays_logins = self.broker_logins is None and self._client_logins is None
        answer = local_response if relays_logins else reject_client_logins(local_response)
        return Routes(self.metrics, rewrites.response, answer, self._exchange_of, self._tap_of)

    def _tap_of(self, key: int, version: int) -> Tap | None:
        """As `_exchange_of`."""
        taps = [made for make in (self.features.tap, *self._taps) if (made := make(key, version)) is not None]
        return reduce(in_turn, taps) if taps else None

    def add_tap(self, make: Callable[[int, int], Tap | None]) -> None:
        """Have requests watched that begin from now on, by what is made for each API and version."""
        self._taps.append(make)
        self._routes.forget()

    def remove_tap(self, make: Callable[[int, int], Tap | None]) -> None:
        """Have no more requests watched by it."""
        self._taps.remove(make)
        self._routes.forget()

    def _exchange_of(self, key: int, version: int) -> Begin | None:
        """Called once for each API and version that clients use."""
        found = self.features.exchange(key, version)
        if log.isEnabledFor(logging.DEBUG):
            what = "looked into" if found is not None else "relayed by its header"
            name = APIS[key].name if key in APIS else str(key)
            log.debug("route made", extra={"api": name, "detail": f"version {version}: {what}"})
        return found

    def watch_connections(self, show: Callable[[Connection, Closing | None], None] | None) -> None:
        """Show connections as they begin, and as they end, then with the reason. None: no longer."""
        self._on_connection = show

    async def start(self) -> None:
        """Bind the bootstrap listener and start the metadata refresh.

        Raises ConfigError if the port is in use, or a bootstrap server is this sidecar.
        """
        host, port = host_port(self.config.listen)
        await self._check_servers(host, port)
        try:
            bound = bind_socket(host, port, shared=self.config.worker.count > 1)
        except OSError as error:
            raise ConfigError(
                f"listen: {self.config.listen} cannot be bound: {error.strerror or error}; choose another"
            ) from error
        self._serve(BOOTSTRAP, bound, self._dial_any)
        if (path := self.config.own_file(self.config.nodes.state_file)) is not None:
            self.addresses.update(load_brokers(path))
            self.addresses.on_change = lambda: save_brokers(path, self.addresses.brokers())
        if not self.features.is_applied:
            self.apply(self.config)
        await self.features.start()
        self.listening = True
        self._watchdog.start()
        limits = self.config.connections
        self._tasks = [
            spawn(self._refresh_brokers(), "refresh brokers"),
            spawn(self._probe(self._servers.next_order()), "probe the bootstrap servers"),
            spawn(_write_held_back(), "write how many lines were held back"),
            spawn(self.tls.watch(), "watch certificates"),
            spawn(
                Sweep(
                    self.connections,
                    self.memory,
                    self._performer.threads,
                    limits.max_idle,
                    limits.frame_timeout,
                    limits.max_age or math.inf,
                ).run(),
                "sweep connections",
            ),
        ]

    def apply(self, config: Config) -> None:
        """Apply policies, topics and interceptors of a configuration to requests that begin from now on.

        Raises ConfigError if a rule or an interceptor is invalid; then the previous ones stay applied.
        """
        self.features.apply(config)
        self._routes.forget()

    async def drain(self, hurry: asyncio.Event) -> None:
        """Stop accepting; close open connections by the end of drain_timeout, or when ``hurry`` is set.

        Requests of the last seconds are not read: clients send them again elsewhere, and lose no response.
        """
        self.listening = False
        limit_s = self.config.connections.drain_timeout
        drained_by = time.monotonic() + limit_s
        await stop(*self._tasks)
        for server in self._listeners.values():
            server.close()
        log.info(
            "draining",
            extra={"connections": len(self.connections), "drain_timeout_s": self.config.connections.drain_timeout},
        )
        waits = [spawn(_set(event), "drain") for event in (self._idle, hurry)]
        finishing_s = min(FINISH_S, limit_s / 2)
        await asyncio.wait(waits, timeout=limit_s - finishing_s, return_when=asyncio.FIRST_COMPLETED)
        finishing = spawn(finish_connections(self.connections, DRAIN, finishing_s / 2), "finish connections")
        await asyncio.wait(waits, timeout=finishing_s, return_when=asyncio.FIRST_COMPLETED)
        await stop(*waits, finishing)
        self._ends.finish()
        for connection in list(self.connections):
            connection.end(DRAIN)
        try:
            async with asyncio.timeout(1):
                await self._idle.wait()
        except TimeoutError:
            log.warning("connections not closed in time", extra={"connections": len(self.connections)})
        self._logged.finish()
        self._verifications.stop()
        self._cluster.close()
        await self.features.stop(0.0 if hurry.is_set() else drained_by - time.monotonic())
        write_held_back(is_last=True)
        self._watchdog.stop()

    async def unused(self, limit_s: float) -> None:
        """Returns once clients have been connected, and none for ``limit_s`` to twice as long."""
        while True:
            seen = sum(self.metrics.connections.values())
            await asyncio.sleep(limit_s)
            if seen and not self.connections and seen == sum(self.metrics.connections.values()):
                return

    def began(self, connection: Connection) -> Closing | None:
        self.connections[connection] = None
        self.connected[connection.listener] += 1
        self._idle.clear()
        kind = connection.listener.split()[0]
        self.metrics.connections[kind] += 1
        self.metrics.active[kind] += 1
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "connection accepted",
                extra={"session": connection.number, "client": connection.peer, "listener": connection.listener},
            )
        if self._on_connection is not None:
            self._on_connection(connection, None)
        return self._admission.enter(connection.ip)

    def spoke(self, chunk: bytes) -> Closing | None:
        if self.own.recognise(chunk):
            return Closing("connects_to_itself", "a connection of this sidecar has come back to its own listener")
        return None

    def ended(self, connection: Connection, closing: Closing) -> None:
        self.connections.pop(connection, None)
        self.connected[connection.listener] -= 1
        if not self.connections:
            self._idle.set()
        self._admission.leave(connection.ip)
        self.metrics.active[connection.listener.split()[0]] -= 1
        self.metrics.disconnects[closing.cause] += 1
        self._logged.do(partial(self._log_end, connection, closing))

    def _log_end(self, connection: Connection, closing: Closing) -> None:
        keys = closed_keys(connection, closing)
        self.closed.append((time.time(), keys))
        if self._on_connection is not None:
            self._on_connection(connection, closing)
        if closing.cause in NORMAL_CAUSES:
            log.info("connection ended", extra=end_keys(connection, keys))
        elif (suppressed := self._lines.due(end_kind(connection, closing))) is not None:
            log.warning("connection ended", extra=end_keys(connection, keys, suppressed))

    @property
    def listener_addresses(self) -> dict[str, list[str]]:
        """Addresses that are bound for clients, by listener."""
        bound = {name: [one.getsockname() for one in server.sockets] for name, server in self._listeners.items()}
        return {name: [f"{host}:{port}" for host, port, *_ in names] for name, names in bound.items()}

    def is_own(self, address: Address) -> bool:
        return address in self.own.addresses

    def record_attempt(self, address: Address, error: Exception | None) -> None:
        """Of a client's connection, or of the sidecar's own."""
        cause = self.attempts.record(address, error)
        if cause is not None:
            self.metrics.connect_failures[cause] += 1
        self._servers.record_attempt(address, cause in (None, REJECTED_LOGIN))

    async def _check_servers(self, host: str, port: int) -> None:
        """Raises ConfigError if a bootstrap server is a listener of this sidecar."""
        own = await listener_among(map(host_port, self.config.bootstrap_servers), host, self.config.own_ports)
        if own is not None:
            raise ConfigError(f"bootstrap_servers: {self.config.is_itself('{}:{}'.format(*own))}")

    async def _probe(self, addresses: list[Address]) -> None:
        """See whether addresses lead back to this sidecar."""
        for address in addresses:
            with suppress(*FAILURES):
                await self._cluster.probe(address)

    def _serve(self, listener: str, bound: socket.socket, dial: Dial) -> None:
        limits = self.config.connections

        def connection() -> Connection:
            session = Session(
                self._routes, time.perf_counter, limits.max_frame, self._budget, self.memory, limits.recorded_requests
            )
            session.gates = self.features.gates(session)
            if self.record_requests is not None:
                session.record = self.record_requests(session, session.record)
            number, perform = next(self._numbers), self._performer.perform
            made = Connection(number, session, listener, dial, perform, self, limits.window, self._ends)
            if (logins := self._client_logins) is not None:
                login = logins.begin(session)
                counts = self.metrics.client_logins
                made.login = LoginDriver(
                    made,
                    login,
                    logins.timeout_s,
                    counts,
                    self._verifications,
                    self._failed_logins,
                    self._wait_for_brokers,
                )
            return made

        def holds_back() -> bool:
            return self._ends.has_waiting  # they have their places in the limits

        if (tls := self.tls.clients) is not None:
            own = self.config.clients.tls
            self._listeners[listener] = TlsListener(
                bound,
                connection,
                tls,
                self._handshakes,
                own.handshake_timeout,
                principal_by(parse_rules(own.principal_rules)),
                holds_back,
            )
            return
        self._listeners[listener] = Listener(bound, connection, holds_back)

    def _listen_for_node(self, node_id: int, port: int) -> None:
        """Bind at once, so that a client that gets the port can connect."""
        bound = bind_socket(self._bind_host, port)
        self.metrics.broker_listeners += 1
        self._serve(f"node {node_id}", bound, lambda *client: self._dial_node(node_id, *client))

    def _close_listeners(self, nodes: list[Node]) -> None:
        """Close the listeners of brokers that have left; open sessions continue until they end."""
        for node in nodes:
            self.metrics.broker_listeners -= 1
            if (server := self._listeners.pop(f"node {node.node_id}", None)) is not None:
                server.close()

    def _reached(self) -> None:
        self.metrics.cluster_reached = True
        self._versions_known.set()

    def _wait_for_brokers(self) -> Awaitable[None] | None:
        """Until their versions are known, as long as clients wait for a broker; None: they are."""
        return None if self._cluster.offered is not None else self._await_versions()

    async def _await_versions(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.connections.broker_wait):
                await self._versions_known.wait()

    def _candidates(self) -> list[Address]:
        """For bootstrap connections and metadata requests: the configured servers, then all known brokers."""
        order = self._servers.next_order()
        return order + [
            known for node in self.addresses.nodes.values() if (known := (node.host, node.port)) not in order
        ]

    async def _dial_any(self, factory: Callable[[], asyncio.Protocol], principal: str | None) -> None:
        wait_s = self.config.connections.broker_wait
        await self._dialer.dial(self._candidates, factory, wait_s, self._logins_by_principal.of(principal))

    async def _dial_node(self, node_id: int, factory: Callable[[], asyncio.Protocol], principal: str | None) -> None:
        def candidates() -> list[Address]:
            node = self.addresses.nodes.get(node_id)
            return [(node.host, node.port)] if node is not None else []

        wait_s = min(NODE_WAIT_S, self.config.connections.broker_wait)
        await self._dialer.dial(candidates, factory, wait_s, self._logins_by_principal.of(principal))

    async def _learn_names(self, need: TopicNames) -> None:
        """Names that no broker knows stay unknown."""
        with suppress(OSError, CodecError):
            await self.topics.resolve(need.topic_ids)

    async def _find_ids(self, need: TopicIds) -> dict[str, bytes] | None:
        try:
            ids = await self._cluster.topic_ids(need.names)
        except (OSError, CodecError):
            return None
        self.topics.remember((topic_id, name) for name, topic_id in ids.items())
        return ids

    async def _refresh_brokers(self) -> None:
        """Request the brokers of the cluster at intervals, until cancelled."""
        pause, lines = FIRST_RETRY_S, _MetadataLines()
        while True:
            try:
                self.addresses.update(await self._cluster.brokers())
                self._close_listeners(self.addresses.expire(self.config.cluster.forget_after))
                pause, self.last_metadata = self.config.cluster.refresh, METADATA_RECEIVED
                lines = _MetadataLines()
            except (OSError, CodecError) as error:
                self.last_metadata = str(error)
                lines.failed(self.last_metadata, time.monotonic())
                pause = min(pause * 2, self.config.cluster.refresh)
            except Exception as error:
                log.error("metadata refresh crashed: this is a bug", exc_info=error)
                pause = self.config.cluster.refresh
            await self._probe(list(self.own.addresses))
            await asyncio.sleep(pause)

    def _tls_metrics(self) -> Iterable[Family]:
        return families_of_tls(self.tls.all, time.time()) if self.tls.all else ()


class _MetadataLines:
    """The lines of metadata requests that fail one after the other: each new reason, and all that last each minute."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._logged_at = 0.0
        self._detail = ""

    def failed(self, detail: str, now: float) -> None:
        self._began = now if self._began is None else self._began
        if detail == self._detail and now - self._logged_at < METADATA_LINE_S:
            log.debug("metadata request failed", extra={"detail": detail})
            return
        self._detail, self._logged_at = detail, now
        failing_s = now - self._began
        level = logging.ERROR if failing_s >= METADATA_LINE_S else logging.WARNING
        log.log(level, "metadata request failed", extra={"detail": detail, "duration_s": round(failing_s, 3)})


async def _write_held_back() -> None:
    while True:
        await asyncio.sleep(1)
        write_held_back()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
