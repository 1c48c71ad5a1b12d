"""A client that follows no rule: frames by hand, and connections that send, read or wait as an attack needs."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

INT16, INT32, INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
CLIENT_ID = b"hostile"
CHUNK_BYTES = 1 << 18
Address = tuple[str, int]


def string(text: bytes | None) -> bytes:
    return INT16.pack(-1) if text is None else INT16.pack(len(text)) + text


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def compact(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def frame(
    key: int, version: int, body: bytes, number: int = 1, flexible: bool = False, client: bytes = CLIENT_ID
) -> bytes:
    header = struct.pack(">hhi", key, version, number) + string(client) + (b"\0" if flexible else b"")
    return INT32.pack(len(header) + len(body)) + header + body


def array(items: Sequence[bytes] | Iterable[bytes]) -> bytes:
    found = list(items)
    return INT32.pack(len(found)) + b"".join(found)


def produce(
    topics: Iterable[tuple[bytes, Sequence[tuple[int, bytes | None]]]],
    version: int = 8,
    acks: int = -1,
    number: int = 1,
    client: bytes = CLIENT_ID,
) -> bytes:
    """A Produce request; versions 3 to 8 have the same layout."""
    parts = []
    for name, partitions in topics:
        records = [
            INT32.pack(index) + (INT32.pack(-1) if data is None else INT32.pack(len(data)) + data)
            for index, data in partitions
        ]
        parts.append(string(name) + array(records))
    return frame(0, version, string(None) + struct.pack(">hi", acks, 10_000) + array(parts), number, client=client)


def offset_commit(topic: bytes, partitions: int) -> bytes:
    each = [struct.pack(">iqi", index, 1, -1) + string(b"") for index in range(partitions)]
    body = string(b"group") + INT32.pack(-1) + string(b"") + string(None) + array([string(topic) + array(each)])
    return frame(8, 7, body)


def fetch(topic: bytes, partitions: int) -> bytes:
    each = [struct.pack(">iiqqi", index, -1, 0, -1, 1000) for index in range(partitions)]
    start = struct.pack(">iiiibii", -1, 100, 1, 1 << 20, 0, 0, -1)
    return frame(1, 11, start + array([string(topic) + array(each)]) + array([]) + string(b""))


def connect(address: Address, limit_s: float = 5.0) -> socket.socket:
    return socket.create_connection(address, limit_s)


def converse(address: Address, data: bytes, limit_s: float, quiet_s: float | None = None, opening: bytes = b"") -> int:
    """Send all of it, reading what comes; how many bytes came until the peer closed, was quiet, or time was up.

    What is sent first is waited for: until nothing comes for a tenth of a second.
    """
    try:
        with connect(address) as sock:
            if opening:
                _exchange(sock, memoryview(opening), time.monotonic() + limit_s, 0.1)
            return _exchange(sock, memoryview(data), time.monotonic() + limit_s, quiet_s or limit_s)
    except OSError:
        return 0


def _exchange(sock: socket.socket, left: memoryview, deadline: float, quiet_s: float) -> int:
    sock.setblocking(False)
    came = 0
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while (wait_s := min(deadline - time.monotonic(), quiet_s)) > 0 and (ready := selector.select(wait_s)):
            for _, mask in ready:
                if mask & selectors.EVENT_READ:
                    if not (chunk := sock.recv(CHUNK_BYTES)):
                        return came
                    came += len(chunk)
                if mask & selectors.EVENT_WRITE and left:
                    left = left[sock.send(left[:CHUNK_BYTES]) :]
                    if not left:
                        selector.modify(sock, selectors.EVENT_READ)
    return came


def ask(address: Address, data: bytes, answers: int, limit_s: float) -> int:
    """Send all of it and wait for so many responses; how many came until the peer closed or time was up."""
    came = 0
    with suppress(OSError), connect(address) as sock:
        sock.settimeout(limit_s)
        sender = threading.Thread(target=_send, args=(sock, data), daemon=True)
        sender.start()
        with sock.makefile("rb") as file:
            while came < answers and len(size := file.read(4)) == 4:
                file.read(int.from_bytes(size, "big"))
                came += 1
        sock.shutdown(socket.SHUT_RDWR)
        sender.join(limit_s)
    return came


def _send(sock: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        sock.sendall(data)


def hold(address: Address, opening: Sequence[bytes], limit_s: float) -> None:
    """A connection for each of them, which all stay open and silent."""
    socks: list[socket.socket] = []
    try:
        for data in opening:
            sock = connect(address)
            socks.append(sock)
            sock.settimeout(limit_s)
            sock.sendall(data)
        time.sleep(max(0.0, limit_s))
    except OSError:
        return
    finally:
        for sock in socks:
            sock.close()
