"""The rig of `make bench-relay`: its two ends work together, and it detects a proxy that cheats."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.produce.v12.request import ProduceRequest
from kio.schema.produce.v12.response import ProduceResponse
from kio.serial import entity_reader
from rig import frames, report
from rig.connection import Connection, Loop, unsent
from rig.driver import BenchError, Client, Driver, Result, Workload
from rig.frames import Address, Frame
from rig.peers import PEERS
from rig.process import Process
from rig.target import Target

pytestmark = pytest.mark.program

NODE = Address("127.0.0.1", 19092)
REQUESTS = [
    (frames.api_versions_request(), ApiVersionsRequest),
    (frames.metadata_request(), MetadataRequest),
    (frames.produce_request(1024), ProduceRequest),
    (frames.fetch_request(4096), FetchRequest),
]
RESPONSES = [
    (frames.api_versions_response(4), ApiVersionsResponse),
    (frames.metadata_response(NODE), MetadataResponse),
    (frames.produce_response(), ProduceResponse),
    (frames.fetch_response(4096), FetchResponse),
]
WORKLOADS = [
    Workload("one at a time", connections=2, depth=1, produce_bytes=1024),
    Workload("pipelined", connections=3, depth=5, produce_bytes=1024),
    Workload("larger than a socket's buffer", connections=2, depth=2, produce_bytes=3 << 20),
    Workload("large responses", connections=2, depth=1, fetch_bytes=3 << 20),
]


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver(Loop())
    yield driver
    driver.close()


@pytest.mark.parametrize(("frame", "schema"), REQUESTS, ids=[schema.__name__ for _, schema in REQUESTS])
def test_an_independent_reader_decodes_every_request(frame: Frame, schema: Any) -> None:
    data = frame.one(77)

    header, header_size = entity_reader(schema.__header_schema__)(data, 4)
    _, body_size = entity_reader(schema)(data, 4 + header_size)

    assert header.correlation_id == 77
    assert 4 + header_size + body_size == len(data) == 4 + int.from_bytes(data[:4], "big")


@pytest.mark.parametrize(("body", "schema"), RESPONSES, ids=[schema.__name__ for _, schema in RESPONSES])
def test_an_independent_reader_decodes_every_response(body: bytes, schema: Any) -> None:
    data = frames.response(body).one(77)

    header, header_size = entity_reader(schema.__header_schema__)(data, 4)
    _, body_size = entity_reader(schema)(data, 4 + header_size)

    assert header.correlation_id == 77
    assert 4 + header_size + body_size == len(data) == 4 + int.from_bytes(data[:4], "big")


@pytest.mark.parametrize("size", [100, 1024, 1 << 20])
def test_a_record_batch_has_exactly_the_given_size(size: int) -> None:
    batch = frames.record_batch(size)

    assert len(batch) == size == 12 + int.from_bytes(batch[8:12], "big")


def test_frames_stamped_at_once_equal_frames_stamped_one_by_one() -> None:
    small, large = frames.produce_request(100), frames.produce_request(64 << 10)

    for frame in (small, large):
        assert b"".join(frame.stamp(41, 3)) == frame.one(41) + frame.one(42) + frame.one(43)


def test_the_client_reads_the_node_from_metadata() -> None:
    assert frames.node_address((7).to_bytes(4, "big") + frames.metadata_response(NODE)) == NODE


@pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.title for workload in WORKLOADS])
def test_every_request_gets_one_response_in_order(driver: Driver, workload: Workload) -> None:
    result = driver.run(workload, driver.broker.address, None, warm_up_s=0.01, seconds=0.05)

    assert 0 < result.requests <= driver.broker.served
    assert (result.latency_s is not None) == (workload.depth == 1)


@pytest.mark.parametrize("step", [1, 7, 11, 12, 13, 100])
def test_frames_are_split_however_the_bytes_arrive(step: int) -> None:
    loop, found = Loop(), list[tuple[int, ...]]()
    sender, receiver = _connected()
    connection = Connection(loop, receiver, frames.REQUEST_HEAD, found.extend, lambda: None)
    data = b"".join(frames.produce_request(100).stamp(1, 3))

    for at in range(0, len(data), step):
        sender.sendall(data[at : at + step])
        loop.poll(0.5)

    assert [correlation for *_, correlation in found] == [1, 2, 3]
    connection.close()
    sender.close()


def test_unsent_bytes_of_a_full_socket_are_sent_later_in_order() -> None:
    pieces = [b"abc", b"defg", b"h"]

    assert [b"".join(unsent(pieces, sent)) for sent in (0, 2, 3, 5, 8)] == [
        b"abcdefgh",
        b"cdefgh",
        b"defgh",
        b"fgh",
        b"",
    ]


def test_the_broker_detects_a_lost_request(driver: Driver) -> None:
    driver.broker.prepare(fetch_bytes=0)
    request = frames.produce_request(100)
    with socket.create_connection(driver.broker.address) as sock:
        sock.sendall(request.one(1) + request.one(3))

        with pytest.raises(AssertionError, match=r"request 3 .* where 2 was due"):
            _poll(driver.loop)


def test_the_client_detects_a_response_to_another_request() -> None:
    loop = Loop()
    broker, sock = _connected()
    client = Client(loop, sock, frames.produce_request(100), depth=1, first=1)
    client.start()
    broker.sendall(frames.response(frames.produce_response()).one(2))

    with pytest.raises(AssertionError, match=r"response 2 .* where 1 was due"):
        _poll(loop)

    client.connection.close()
    broker.close()


def test_a_proxy_that_does_not_rewrite_the_brokers_address_is_detected(driver: Driver) -> None:
    honest, cheat = driver, Driver(driver.loop)
    cheat.broker.advertised = honest.broker.address

    with pytest.raises(BenchError, match="went to the broker directly"):
        honest.run(WORKLOADS[0], cheat.broker.address, None, warm_up_s=0, seconds=0.02)

    cheat.close()


def test_the_cpu_time_of_children_counts(tmp_path: Path) -> None:
    spin = "import time\nwhile time.process_time() < 0.05: pass\n"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {spin + 'time.sleep(60)'!r}])"
    process = Process([sys.executable, "-S", "-c", child], tmp_path / "log", core=None)
    try:
        deadline = time.monotonic() + 10
        while process.cpu_ns() < 50_000_000 and time.monotonic() < deadline:
            time.sleep(0.01)

        assert process.cpu_ns() >= 50_000_000
        resident = process.rss_bytes()  # first: it may still grow
        assert process.peak_rss_bytes() >= resident > 1_000_000
    finally:
        for pid in process.family()[::-1]:
            os.kill(pid, signal.SIGTERM)
        process.stop()


def test_ratios_are_taken_within_a_repetition_and_compared_with_targets_for_the_sidecar_only(driver: Driver) -> None:
    workload = Workload("w", connections=1, depth=1, produce_bytes=1024, target=1.5)
    targets = [Target(peer.name, driver, NODE, peer, starts_s=[0.1], idle_bytes=50_000_000) for peer in PEERS]
    cpu_s = {"haproxy": [10e-6, 20e-6, 40e-6], "socat": [20e-6, 40e-6, 80e-6], "kafka-sidecar": [14e-6, 28e-6, 30e-6]}
    runs = {
        ("w", name): [Result(1, 1.0, each, 0.0, 60_000_000, None) for each in times] for name, times in cpu_s.items()
    }

    text = report.table(report.rows([workload], targets, runs), [target.name for target in targets])

    cpu, _, start, idle, peak, _ = [[cell.strip() for cell in line.split("|")[2:-1]] for line in text.splitlines()[2:]]
    assert cpu == ["20.0 (1.00x)", "40.0 (2.00x)", "28.0 (1.40x) met", "<= 1.5x haproxy"]
    assert start == ["100", "100", "100 met", "<= 500"]
    assert idle == ["50.0", "50.0", "50.0 MISSED", "<= 45"]
    assert peak == ["60.0", "60.0", "60.0", ""]


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def _poll(loop: Loop) -> None:
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        loop.poll(0.01)
