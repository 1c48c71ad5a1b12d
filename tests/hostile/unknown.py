"""Attacks of clients that are not known yet: names of topics, connections to the admin port, logins."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from hostile.attacks import MB, Attack, Place, reconnect
from hostile.logins import MECHANISM, USER, handshake, login, token, wrong_password
from hostile.wire import Address, compact, connect, converse, frame, hold, uvarint


def invalid_name(_: int) -> bytes:
    """A Produce of 20 MB, nearly all of it the name of a topic."""
    partition = b"\0" * 4 + compact(b"") + b"\0"
    topic = compact(b"n" * (20 * MB)) + uvarint(2) + partition + b"\0"
    return frame(0, 9, b"\0" + b"\xff\xff" + (10_000).to_bytes(4, "big") + uvarint(2) + topic + b"\0", flexible=True)


def idle_admin(place: Place) -> None:
    """Connections to the admin port: half of them silent, half with requests whose answers they do not read."""
    question = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50
    hold(place.admin, [question if number % 2 else b"" for number in range(500)], place.limit_s)


GUESSERS = 700


def guess_passwords(place: Place) -> str:
    """700 connections that guess passwords, each of them again once it was rejected; honest logins beside them."""
    deadline, waits = time.monotonic() + place.limit_s, dict[str, list[float]](PLAIN=[], SCRAM=[])

    def guess(number: int) -> None:
        while (left_s := deadline - time.monotonic()) > 0:
            converse(place.kafka, wrong_password(number), left_s)

    def log_in(kind: str, request: bytes) -> None:
        while (began := time.monotonic()) < deadline:
            waits[kind].append(until_answered(place.kafka, request) - began)
            time.sleep(0.05)

    with ThreadPoolExecutor(GUESSERS + 2) as pool:
        for number in range(GUESSERS):
            pool.submit(guess, number)
        pool.submit(log_in, "PLAIN", login())
        pool.submit(log_in, "SCRAM", handshake(MECHANISM.encode()) + token(f"n,,n={USER},r=nonce".encode()))
    shown = (
        f"{kind}: {len(each)} logins, p99 {sorted(each)[-1 - len(each) // 100]:.3f} s" for kind, each in waits.items()
    )
    return "; ".join(shown)


def until_answered(address: Address, requests: bytes) -> float:
    """When the second response has come, that to a token."""
    with suppress(OSError), connect(address, 30.0) as sock:
        sock.sendall(requests)
        data = b""
        while len(data) < 4 or len(data) <= 4 + int.from_bytes(data[:4], "big"):
            if not (chunk := sock.recv(1 << 16)):
                break
            data += chunk
    return time.monotonic()


UNKNOWN = (
    Attack("66: a topic name of 20 MB, 24 times", lambda: reconnect(24, invalid_name), kept_mb=32),
    Attack("67: 500 connections to the admin port that ask nothing, or read nothing", lambda: idle_admin),
    Attack(
        "68: 700 connections with wrong passwords (PLAIN), honest logins beside",
        lambda: guess_passwords,
        "SASL_PLAINTEXT",
    ),
)
