"""Attacks on the page of the admin port: readers that do not read or come and go, and names that are meant for it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from integration.validation.batches import batch, record

from hostile.attacks import Attack, Place, Run
from hostile.wire import Address, converse, frame, produce

READ = b"GET /live?with=topics,connections,rejections HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SLOW_BUFFER_BYTES = 4096
PAGES = 10
API_VERSIONS = 18
# For a browser, a terminal, JSON and events; and what is longer than any topic or no UTF-8.
NAMES = (
    b"<script>alert(1)</script>", b'"><img src=x onerror=alert(1)>', b"\x1b]0;gone\x07\x1b[2J", b"\n\ndata: {}\n\n",
    b"\xff\xfe\x80", "\u202e\u2028\u0000".encode(), b"\x7f" * 100, b"'\\u0022}]}", b"n" * 249, b"n" * 30_000,
)  # fmt: skip


def streams(clients: int, stays: Callable[[socket.socket, float], None]) -> Callable[[], Run]:
    """Readers of the stream, which begin again when they have lost it."""

    def prepare() -> Run:
        def run(place: Place) -> None:
            deadline = time.monotonic() + place.limit_s

            def one(_: int) -> None:
                while (left_s := deadline - time.monotonic()) > 0:
                    with suppress(OSError), connected(place.admin) as sock:
                        sock.sendall(READ)
                        stays(sock, left_s)

            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(one, range(clients)))

        return run

    return prepare


def connected(address: Address) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SLOW_BUFFER_BYTES)
    sock.settimeout(5)
    sock.connect(address)
    return sock


def never_reads(sock: socket.socket, left_s: float) -> None:
    time.sleep(left_s)


def leaves(sock: socket.socket, left_s: float) -> None:
    """At once, or with the first bytes."""
    if time.monotonic_ns() % 2:
        sock.recv(100)


def names_for_pages() -> Run:
    """Rejected batches for topics and of clients with such names, while pages are open.

    Raises ValueError if these get anything but JSON in ASCII.
    """
    bad = batch(record(0, b"{", ()), 1)
    sent = b"".join(
        frame(API_VERSIONS, 0, b"", client=name)
        + produce([(b"%b-%d" % (name, number), [(0, bad)]) for number in range(30)], client=name)
        for name in NAMES
    )

    def run(place: Place) -> None:
        deadline = time.monotonic() + place.limit_s

        def send(_: int) -> None:
            while (left_s := deadline - time.monotonic()) > 0:
                converse(place.kafka, sent, left_s, quiet_s=0.1)

        def look(number: int) -> list[str]:
            events = read_until(place.admin, deadline)
            if not number:  # one is enough: all get the same, and many would keep this process from measuring
                return list(faults(events))
            return [] if events else ["a reader got no snapshot"]

        with ThreadPoolExecutor(PAGES + 2) as pool:
            looking = pool.map(look, range(PAGES))
            list(pool.map(send, range(2)))
            found = [fault for each in looking for fault in each]
        if found:
            raise ValueError(found[0])

    return run


def read_until(address: Address, deadline: float) -> bytes:
    """What a reader of the stream gets, without the framing of HTTP."""
    with socket.create_connection(address, 5) as sock:
        sock.sendall(READ.replace(b"HTTP/1.1", b"HTTP/1.0"))
        received = bytearray()
        while (left_s := deadline - time.monotonic()) > 0:
            sock.settimeout(left_s)
            try:
                data = sock.recv(1 << 16)
            except TimeoutError:
                break
            if not data:
                break
            received += data
    return bytes(received).partition(b"\r\n\r\n")[2]


def faults(events: bytes) -> list[str]:
    """Of what is not the text of snapshots."""
    whole = events.split(b"\n\n")[:-1]
    if not whole:
        return ["a reader got no snapshot"]
    found = []
    for event in whole:
        head, _, data = event.partition(b"\n")
        if head != b"event: snapshot" or not all(0x20 <= byte < 0x7F for byte in data):
            found.append(f"not the text of a snapshot: {event[:100]!r}")
            continue
        with suppress(ValueError):
            json.loads(data.removeprefix(b"data: "))
            continue
        found.append(f"no JSON: {data[:100]!r}")
    return found


PAGE = (
    Attack("110: page: 64 readers that never read", streams(64, never_reads)),
    Attack("111: page: 32 readers that come and go as fast as they can", streams(32, leaves)),
    Attack("112: page: hostile names of topics and clients, 10 open pages", names_for_pages),
)
