"""SCRAM (RFC 5802, RFC 7677) as Kafka uses it: without channel binding, without SASLprep.

client  n,,n=user,r=CNONCE            client-first
server  r=CNONCE+SNONCE,s=salt,i=4096 server-first
client  c=biws,r=NONCE,p=proof        client-final
server  v=signature                   server-final
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

# Kafka's mechanism to the name of its hash.
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384  # as Kafka; more would hold up the event loop
GS2_HEADER = b"n,,"
MAX_TOKEN_BYTES = 4096


class ScramError(ValueError):
    """The other side sent what the RFC forbids, or does not know the password. The text quotes nothing of it."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """What both sides derive from a password."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


@lru_cache(64)
def derive_keys(hash_name: str, password: bytes, salt: bytes, iterations: int) -> Keys:
    """The keys of a password; takes milliseconds, so those of the last passwords are kept."""
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return Keys(client_key, hashlib.new(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name))


def client(mechanism: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """The client's tokens; it is sent the server's. Raises ScramError."""
    hash_name = HASHES[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C").encode()
    first_bare = b"n=%s,r=%s" % (name, nonce.encode())
    server_first = yield GS2_HEADER + first_bare
    fields = parse_fields(server_first)
    salt, iterations = from_base64(fields.get("s")), _iterations(fields.get("i"))
    combined = fields.get("r", "")
    if not combined.startswith(nonce) or len(combined) == len(nonce):
        raise ScramError("the broker's nonce does not continue the one that it was sent")
    keys = derive_keys(hash_name, password.encode(), salt, iterations)
    without_proof = b"c=" + base64.b64encode(GS2_HEADER) + b",r=" + combined.encode()
    signed = b",".join((first_bare, server_first, without_proof))
    signature = hmac.digest(keys.stored_key, signed, hash_name)
    server_final = yield without_proof + b",p=" + base64.b64encode(xor(keys.client_key, signature))
    fields = parse_fields(server_final)
    if "e" in fields:
        raise ScramError("the broker rejects the proof of the password")
    if not hmac.compare_digest(from_base64(fields.get("v")), hmac.digest(keys.server_key, signed, hash_name)):
        raise ScramError("the broker does not know the password: its signature is wrong")


def parse_fields(token: bytes) -> dict[str, str]:
    """The fields of a token: one letter, `=`, a value. Raises ScramError.

    >>> parse_fields(b"r=abc,s=c2FsdA==,i=4096")
    {'r': 'abc', 's': 'c2FsdA==', 'i': '4096'}
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise ScramError(f"a token has more than {MAX_TOKEN_BYTES} bytes")
    try:
        parts = [part.partition("=") for part in token.decode().split(",")]
    except UnicodeDecodeError:
        raise ScramError("a token is not text in UTF-8") from None
    if any(len(name) != 1 or not equals for name, equals, _ in parts) or len({name for name, *_ in parts}) < len(parts):
        raise ScramError("a token is not a list of fields")
    return {name: value for name, _, value in parts}


def from_base64(text: str | None) -> bytes:
    """The bytes of a field that must be there. Raises ScramError."""
    try:
        decoded = base64.b64decode((text or "").encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        decoded = b""
    return decoded or _fail("a field is missing, or is not base64")


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _iterations(text: str | None) -> int:
    number = int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        _fail(f"the number of iterations is not from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return number


def _fail(text: str) -> NoReturn:
    raise ScramError(text)
