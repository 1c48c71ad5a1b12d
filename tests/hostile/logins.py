"""Attacks on a listener where clients log in to the sidecar: before a login, by logins, and after one."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from hostile.attacks import (
    Attack,
    Place,
    Run,
    at_once,
    half_sent,
    large_frame,
    many_connections,
    one_topic,
    reconnect,
    small_produce,
    trickle,
)
from hostile.wire import converse, frame, string
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

USER, PASSWORD = "honest", "pw-of-honest"
MECHANISM = "SCRAM-SHA-256"  # of the honest clients
ITERATIONS = 8192  # more than the least: what a stored password costs to verify with PLAIN


def users_file(folder: Path) -> Path:
    """The users of the sidecar that is attacked."""
    path = folder / "users"
    path.write_text(format_user(USER, MECHANISM, create_verifier(MECHANISM, PASSWORD, ITERATIONS)))
    return path


def versions(count: int) -> bytes:
    return b"".join(frame(18, 0, b"", number) for number in range(count))


def handshake(mechanism: bytes = b"PLAIN", number: int = 1) -> bytes:
    return frame(17, 1, string(mechanism), number)


def token(data: bytes) -> bytes:
    return frame(36, 0, struct.pack(">i", len(data)) + data)


def wrong_password(number: int) -> bytes:
    return handshake() + token(b"\0honest\0wrong %05d" % number)


def login() -> bytes:
    return handshake() + token(f"\0{USER}\0{PASSWORD}".encode())


def scram_first(number: int) -> bytes:
    """A name of 16,000 bytes."""
    return handshake(MECHANISM.encode()) + token(b"n,,n=" + b"%08d" % number * 2000 + b",r=nonce")


def no_login(_: int) -> bytes:
    return versions(1) + handshake()


def many_versions(_: int) -> bytes:
    return versions(1000)


def half_handshake(_: int) -> bytes:
    return handshake()[:-1]


def after_login(make: Callable[[], bytes], connections: int) -> Callable[[], Run]:
    """The same bytes on some connections at once, each of which has logged in."""

    def prepare() -> Run:
        data = make()

        def run(place: Place) -> None:
            deadline = time.monotonic() + place.limit_s

            def one(_: int) -> None:
                converse(place.kafka, data, deadline - time.monotonic(), opening=login())

            with ThreadPoolExecutor(connections) as pool:
                list(pool.map(one, range(connections)))

        return run

    return prepare


def handshakes() -> bytes:
    return b"".join(handshake(number=number) for number in range(50_000))


LOGINS = tuple(
    Attack(name, prepare, "SASL_PLAINTEXT")
    for name, prepare in (
        ("31: before a login, 20 unfinished frames of 95 MB", lambda: half_sent),
        ("32: 3,000 connections that never log in", lambda: many_connections(3000, no_login)),
        ("33: 3,000 half SaslHandshake requests", lambda: many_connections(3000, half_handshake)),
        ("34: 300 logins, a byte at a time", lambda: partial(trickle, login)),
        ("35: 10,000 wrong passwords (PLAIN), 500 at once", lambda: partial(at_once, wrong_password, 20)),
        ("36: 2,000 SCRAM logins, names of 16,000 bytes", lambda: reconnect(2000, scram_first)),
        ("37: 2,000 Produce requests before a login", lambda: reconnect(2000, lambda _: small_produce())),
        ("38: 1,000 ApiVersions requests before a login, 2,000 times", lambda: reconnect(2000, many_versions)),
        ("39: after a login, 20 unfinished frames of 95 MB", after_login(large_frame, 20)),
        ("40: after a login, Produce of 2,800,000 partitions (22 MB)", after_login(partial(one_topic, 2_800_000), 1)),
        ("41: after a login, 50,000 SaslHandshake requests, on 4 connections", after_login(handshakes, 4)),
    )
)  # fmt: skip
