"""A session between a client and a broker that are played by the test: bytes in, bytes out, no sockets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from struct import pack

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Begin, Send
from kafka_sidecar.proxy.relay.exchange_driver import Driver, LoopBudget
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.relay.mute import Mute
from kafka_sidecar.proxy.relay.responses import OwnRequests
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.telemetry.metrics import Metrics
from support import oracle
from support.oracle import framed

HOST, FIRST_PORT = "sidecar.local", 20000
MAX_FRAME = 100 << 20


class Dialogue:
    """What both peers have sent and received so far. Clients see node N as HOST, FIRST_PORT + N.

    ``exchange`` says what looks into requests, as in `Routes`.
    """

    def __init__(
        self,
        max_frame: int = MAX_FRAME,
        host: str = HOST,
        exchange: Callable[[int, int], Begin | None] = lambda key, version: None,
        max_buffered: int = MAX_FRAME,
        tap: Callable[[int, int], Tap | None] = lambda key, version: None,
    ) -> None:
        self.now = 0.0
        self.host = host
        self.nodes: dict[int, tuple[str, int]] = {}  # what the broker said
        self.metrics = Metrics()
        self.topics = TopicNameCache(_no_cluster)
        rewrites = Rewrites(self.local, self.topics.learn)
        self.routes = Routes(self.metrics, rewrites.response, local_response, exchange, tap)
        self.budget = LoopBudget()
        self.memory = MemoryBudget(max_buffered, self.metrics.buffered)
        self.session = Session(self.routes, lambda: self.now, max_frame, self.budget, self.memory)
        self.paused: list[Driver] = []
        self.mutes: list[tuple[float, str]] = []  # until when the client is not read, and which limit says so
        self.to_broker = b""
        self.to_client = b""

    def local(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        self.nodes[node_id] = host, port
        return self.host, FIRST_PORT + node_id

    def client(self, *chunks: bytes) -> Dialogue:
        """The client sends; nothing more is read once the session is closing."""
        for chunk in chunks:
            if self.session.closing is None:
                self.to_broker += self.session.from_client(chunk)
                self.to_client += self.session.to_client()
                self._do_agenda()
        return self

    def broker(self, *chunks: bytes) -> Dialogue:
        """The broker sends; nothing more is read once the session is closing."""
        for chunk in chunks:
            if self.session.closing is None:
                self.to_client += self.session.from_broker(chunk)
                self.to_client += self.session.to_client()
                self._do_agenda()
        return self

    @property
    def needs(self) -> list[Need]:
        """What paused directions wait for, in the order in which they were paused. Our own requests are sent."""
        self._do_agenda()
        return [driver.need for driver in self.paused if driver.need is not None]

    def meet(self, result: object = None, error: BaseException | None = None) -> Dialogue:
        """The first of these needs is met."""
        self._do_agenda()
        self._resume(self.paused.pop(0), result, error)
        return self

    def _do_agenda(self) -> None:
        while self.session.agenda:
            item = self.session.agenda.pop(0)
            if isinstance(item, Mute):
                self.mutes.append((self.session.muted_until, self.session.muted_by))
            elif isinstance(item, OwnRequests):
                self._resume(item.driver, tuple(item.answers))
            elif isinstance(item.need, Send):
                self.to_broker += b"".join(self.session.send(item, item.need))
            else:
                self.paused.append(item)

    def _resume(self, driver: Driver, result: object, error: BaseException | None = None) -> None:
        out = self.session.resume(driver, result, error)
        out = b"".join((*driver.take_left(), out))
        if self.session.is_request_driver(driver):
            self.to_broker += out
        else:
            self.to_client += out
        self.to_client += self.session.to_client()

    @property
    def cause(self) -> str | None:
        return self.session.closing.cause if self.session.closing else None

    @property
    def detail(self) -> str:
        assert self.session.closing is not None, "the session is not closing"
        return self.session.closing.detail


async def _no_cluster(topic_ids: Collection[bytes]) -> Mapping[bytes, str]:
    raise OSError(f"no cluster has the names of {topic_ids!r}")


def request(key: int, version: int, correlation_id: int, body: bytes = b"", client_id: bytes | None = b"app") -> bytes:
    """A request of any API: the header that all have up to the client id, then ``body`` as it is."""
    name = pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    return framed(pack(">hhi", key, version, correlation_id) + name + body)


def response(correlation_id: int, body: bytes = b"") -> bytes:
    return framed(pack(">i", correlation_id) + body)


def produce(version: int, correlation_id: int, acks: int) -> bytes:
    """A Produce request without topics. kio begins with version 3."""
    if version < 3:
        return request(ApiKey.PRODUCE, version, correlation_id, pack(">hii", acks, 30000, 0))
    return oracle.request_frame(oracle.request(ApiKey.PRODUCE, version, acks=acks), correlation_id)


def produced(version: int, correlation_id: int) -> bytes:
    """The answer to it."""
    if version < 3:
        return response(correlation_id, bytes(4) if version == 0 else bytes(8))
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, version), correlation_id)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` in chunks; any numbers say where it is cut."""
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a != b]
