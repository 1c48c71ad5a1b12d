"""Producers with five requests in flight whose sidecar crashes or loses its broker: each record is in the log once and
in order, with one set of headers, though interceptors see again what is sent again."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition
from integration.cells import parameters
from integration.fragile import Fragile, fragile_front
from integration.interception.intercepted import RULES, rules
from integration.interception.outages import outages
from integration.interception.test_send import HEADER, JAVAS_HEADER, added
from integration.scenarios.target import LIMIT_S, SILENT, headers_of
from integration.validation.waves import STORED, Client, Kind, wave

FLOOD = wave("flood", 8000, filler=100)
AT = (1000, 3000, 5000)  # records: there an outage
CLIENTS = ("java", "librdkafka", "aiokafka", "kafka-python")
OUTAGES = ("crash", "cut")
NO_ADDRESS = "0.0.0.0"  # of a socket that is not connected


@dataclass(frozen=True, slots=True)
class Cell:
    client: str
    kind: Kind
    outage: str

    @property
    def is_core(self) -> bool:
        """Whether every change is tested with it: each outage, with one client."""
        return str(self) in ("java-idempotent-cut", "librdkafka-idempotent-crash")

    def __str__(self) -> str:
        return f"{self.client}-{self.kind}-{self.outage}"


CELLS = tuple(
    Cell(client, kind, outage) for client in CLIENTS for kind in ("idempotent", "transactional") for outage in OUTAGES
)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fragile]:
    folder = tmp_path_factory.mktemp("fragile")
    with fragile_front(folder, rules(RULES, folder / "events")) as front:
        yield front


@pytest.fixture(autouse=True)
def no_forgotten_sockets() -> Iterator[None]:
    """kafka-python forgets to close those that could not be connected; other tests are not to find them."""
    yield
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0 and one.type == socket.SOCK_STREAM:
            with suppress(OSError):
                if one.getsockname()[0] == NO_ADDRESS:
                    one.close()


def end_of(bootstrap: str, topic: str) -> Callable[[], int]:
    """Asks how many records there are."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "checks", "logger": SILENT, "isolation.level": "read_uncommitted"}
    )
    return lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), LIMIT_S)[1]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("cell", parameters(CELLS))
def test_each_record_is_there_once_and_in_order_whatever_happens_on_its_way(
    fragile: Fragile, producers: Mapping[str, Client], cell: Cell
) -> None:
    topic = fragile.topic(f"marks-{cell}")
    send = partial(producers[cell.client], fragile.sidecar.bootstrap, topic, "lz4", cell.kind)
    cuts = fragile.relay.cuts

    with outages(end_of(fragile.cluster.direct, topic), AT, fragile.happens(cell.outage)):
        outcome = send([FLOOD])

    assert {*outcome.results.values()} == {STORED}
    assert outcome.ends == [""]
    assert cell.outage == "crash" or fragile.relay.cuts >= cuts + 2 * len(AT)
    log = fragile.log(topic, isolation="read_committed")
    values = [sent.value.encode() for sent in FLOOD]
    assert [record.value() for record in log] == values
    own = JAVAS_HEADER if cell.client == "java" else HEADER
    assert all(headers_of(record) == (own, *added(record.value())) for record in log)
