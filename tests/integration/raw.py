"""A client that sends what it is asked to, over one connection; the codec makes and reads its messages."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from typing import Any, TypeVar

from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafka_sidecar.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kafka_sidecar.proxy.security.sasl.conversation import log_in
from kafka_sidecar.proxy.security.sasl.scram import client

LIMIT_S = 20
HANDSHAKE, AUTHENTICATE = 1, 2  # versions
M = TypeVar("M", bound=Message)


class Raw:
    """A connection; `with` closes it."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), LIMIT_S)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def log_in(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Raw:
        talk = log_in(mechanism, client(mechanism, user, password, secrets.token_hex(8)))
        frame = next(talk)
        try:
            while True:
                self.send(frame)
                frame = talk.send(self.read())
        except StopIteration:
            return self

    def ask(self, message: Message, version: int, of: type[M]) -> M:
        """The response to a request."""
        self.send(encode_request(message, version, 7, "raw"))
        return decode_response(of, self.read(), version).message

    def send(self, *frames: bytes) -> None:
        """In one segment."""
        self._socket.sendall(b"".join(frames))

    def read(self) -> bytes:
        """The next frame; nothing if the connection was closed."""
        if len(start := self._exactly(4)) < 4:
            return b""
        return start + self._exactly(int.from_bytes(start, "big"))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = self._socket.recv(size - len(data))
            except ConnectionError:
                break
            if not chunk:
                break
            data += chunk
        return bytes(data)


def login_frames(mechanism: str, tokens: Iterable[bytes]) -> list[bytes]:
    """A login whose tokens do not depend on the broker's."""
    handshake = encode_request(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE, 1, "raw")
    return [handshake, *(token_frame(one) for one in tokens)]


def token_frame(token: bytes) -> bytes:
    return encode_request(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE, 2, "raw")


def token_in(frame: bytes) -> bytes:
    """The broker's, once it has accepted the client's."""
    message = decode_response(SaslAuthenticateResponse, frame, AUTHENTICATE).message
    assert not message.error_code, message.error_message
    return message.auth_bytes


def mechanisms_in(frame: bytes) -> Any:
    return decode_response(SaslHandshakeResponse, frame, HANDSHAKE).message.mechanisms
