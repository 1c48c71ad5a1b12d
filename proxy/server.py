"""Listeners, connections, start and drain: the sidecar composed of all other folders (design D13)."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.config.loading import Config, ConfigError
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.features import Features
from kafka_sidecar.proxy.nodes import state_file
from kafka_sidecar.proxy.nodes.addresses import Addresses, Node
from kafka_sidecar.proxy.nodes.metadata_client import Address, MetadataClient, Servers, describe
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, answer
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import TopicIds, TopicNames
from kafka_sidecar.proxy.relay.loop_budget import LoopBudget
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Closing, Session
from kafka_sidecar.proxy.runtime.connection import BrokerUnreachableError, Connection, Dial
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

BACKLOG = 1024
BOOTSTRAP = "bootstrap"
FIRST_RETRY_S = 0.5
ENDINGS_THAT_ARE_NEWS = frozenset({"client_closed", "broker_closed", "drain"})  # every other cause is a warning


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that accepts connections already, before anybody serves them. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


class Server:
    """One sidecar process. `start`, then `drain`."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self.config = config
        self.metrics = metrics
        self.connections: set[Connection] = set()
        self.listening = False
        self._bind_host = host_port(config.listen)[0]
        self._servers = Servers(host_port(address) for address in config.bootstrap_servers)
        self.addresses = Addresses(
            config.advertised_host, config.first_node_port, config.nodes.ports, self._listen_for_node, time.monotonic
        )
        limits = config.connections
        self._cluster = MetadataClient(
            self._live_brokers, self._servers.tried, self._reached, limits.source_address, limits.connect_timeout
        )
        self.topics = TopicNameCache(self._cluster.topic_names)
        self._budget = LoopBudget()
        self._performer = Performer(self._budget)
        self._performer.add(TopicNames, self._learn_names)
        self._performer.add(TopicIds, self._find_ids)
        self.features = Features(config, metrics, self.topics, self._cluster, self._performer)
        self._routes = Routes(
            metrics, Rewrites(self.addresses.local, self.topics.learn).response, answer, self.features.exchange
        )
        self._listeners: dict[str, asyncio.Server] = {}
        self._numbers = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Bind the bootstrap listener and begin to ask the cluster. Raises ConfigError where the port is taken."""
        host, port = host_port(self.config.listen)
        try:
            bound = bound_socket(host, port)
        except OSError as error:
            raise ConfigError(
                f"listen: {self.config.listen} cannot be bound: {error.strerror or error}; choose another"
            ) from error
        await self._serve(BOOTSTRAP, bound, self._dial_any)
        if (path := self.config.nodes.state_file) is not None:
            self.addresses.seen(state_file.load(path))
            self.addresses.changed = lambda: state_file.save(path, self.addresses.brokers())
        if not self.features.is_applied:
            self.apply(self.config)
        await self.features.start()
        self.listening = True
        self._tasks = [spawn(self._keep_asking(), "ask the cluster"), spawn(self._watch_loop(), "watch the event loop")]

    def apply(self, config: Config) -> None:
        """Validate and intercept requests that begin from now on as this configuration says; its other settings stay.

        Raises ConfigError where a rule or an interceptor is wrong; what was applied before stays then.
        """
        self.features.apply(config)
        self._routes.forget()

    async def drain(self, hurry: asyncio.Event) -> None:
        """Stop accepting, serve what is open until it ends, the limit is reached or ``hurry`` is set; then close it."""
        self.listening = False
        await stop(*self._tasks)
        for server in self._listeners.values():
            server.close()
        log.info(
            "draining",
            extra={"sessions": len(self.connections), "drain_timeout_s": self.config.connections.drain_timeout},
        )
        waits = [spawn(_set(event), "drain") for event in (self._idle, hurry)]
        await asyncio.wait(waits, timeout=self.config.connections.drain_timeout, return_when=asyncio.FIRST_COMPLETED)
        await stop(*waits)
        for connection in list(self.connections):
            connection.end(Closing("drain", "the sidecar stops"))
        try:
            async with asyncio.timeout(1):
                await self._idle.wait()
        except TimeoutError:
            log.warning("connections did not close in time", extra={"sessions": len(self.connections)})
        await self.features.stop()

    def began(self, connection: Connection) -> None:
        self.connections.add(connection)
        self._idle.clear()
        kind = connection.listener.split()[0]
        self.metrics.connections[kind] += 1
        self.metrics.active[kind] += 1

    def ended(self, connection: Connection, closing: Closing) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self._idle.set()
        self.metrics.active[connection.listener.split()[0]] -= 1
        self.metrics.disconnects[closing.cause] += 1
        level = logging.INFO if closing.cause in ENDINGS_THAT_ARE_NEWS else logging.WARNING
        log.log(level, "connection ended", extra=connection.summary(closing))

    async def _serve(self, listener: str, bound: socket.socket, dial: Dial) -> None:
        limits = self.config.connections

        def connection() -> asyncio.Protocol:
            session = Session(self._routes, time.perf_counter, limits.max_frame, self._budget)
            number, perform = next(self._numbers), self._performer.perform
            return Connection(number, session, listener, dial, perform, self, limits.window).client

        self._listeners[listener] = await asyncio.get_running_loop().create_server(
            connection, sock=bound, backlog=BACKLOG
        )

    def _listen_for_node(self, node_id: int, port: int) -> None:
        """Bind at once, so that a client that is told the port can connect; serve as soon as the loop turns."""
        bound = bound_socket(self._bind_host, port)
        self.metrics.nodes += 1
        spawn(
            self._serve(f"node {node_id}", bound, lambda factory: self._dial_node(node_id, factory)),
            f"listen for node {node_id}",
        )

    def _forget(self, nodes: list[Node]) -> None:
        """Close the listeners of brokers that have left; open sessions go on until they end."""
        for node in nodes:
            self.metrics.nodes -= 1
            if (server := self._listeners.pop(f"node {node.node_id}", None)) is not None:
                server.close()

    def _reached(self) -> None:
        self.metrics.cluster_reached = True

    def _live_brokers(self) -> list[Address]:
        """Whom to ask or to connect a bootstrap connection to: the configured servers, then every known broker."""
        order = self._servers.in_turn()
        return order + [
            known for node in self.addresses.nodes.values() if (known := (node.host, node.port)) not in order
        ]

    async def _dial_any(self, factory: Callable[[], asyncio.Protocol]) -> None:
        await self._dial(self._live_brokers(), factory)

    async def _dial_node(self, node_id: int, factory: Callable[[], asyncio.Protocol]) -> None:
        node = self.addresses.nodes.get(node_id)
        await self._dial([(node.host, node.port)] if node else [], factory)

    async def _dial(self, candidates: list[Address], factory: Callable[[], asyncio.Protocol]) -> None:
        limits = self.config.connections
        source = (limits.source_address, 0) if limits.source_address else None
        cause, detail = "broker_unreachable", "the broker has left the cluster"
        for host, port in candidates:
            try:
                async with asyncio.timeout(limits.connect_timeout):
                    await asyncio.get_running_loop().create_connection(factory, host, port, local_addr=source)
            except (OSError, ValueError, OverflowError) as error:  # the latter two: a host or port that cannot be
                cause = "connect_timeout" if isinstance(error, TimeoutError) else "broker_unreachable"
                detail = f"{host}:{port}: {describe(error)}"
                self.metrics.connect_failures[cause] += 1
                self._servers.tried((host, port), worked=False)
                log.warning(
                    "a broker cannot be reached", extra={"address": f"{host}:{port}", "detail": describe(error)}
                )
            else:
                self._servers.tried((host, port), worked=True)
                self._reached()
                return
        raise BrokerUnreachableError(cause, detail)

    async def _learn_names(self, need: TopicNames) -> None:
        """Names that no broker gives stay unknown."""
        with suppress(OSError, CodecError):
            await self.topics.ask(need.topic_ids)

    async def _find_ids(self, need: TopicIds) -> dict[str, bytes] | None:
        try:
            return await self._cluster.topic_ids(need.names)
        except (OSError, CodecError):
            return None

    async def _keep_asking(self) -> None:
        """Learn of brokers that come and go, for as long as the sidecar serves."""
        pause, told = FIRST_RETRY_S, ""
        while True:
            try:
                self.addresses.seen(await self._cluster.brokers())
                self._forget(self.addresses.forget(self.config.cluster.forget_after))
                pause, told = self.config.cluster.refresh, ""
            except (OSError, CodecError) as error:
                news = logging.DEBUG if str(error) == told else logging.WARNING
                log.log(news, "the cluster cannot be asked for its brokers", extra={"detail": (told := str(error))})
                pause = min(pause * 2, self.config.cluster.refresh)
            except Exception as error:
                log.error("asking the cluster broke: this is a bug", exc_info=error)
                pause = self.config.cluster.refresh
            await asyncio.sleep(pause)

    async def _watch_loop(self) -> None:
        """Measure how late timers fire."""
        while True:
            due = time.perf_counter() + 1
            await asyncio.sleep(1)
            self.metrics.loop_was_late(time.perf_counter() - due)


async def _set(event: asyncio.Event) -> None:
    await event.wait()
