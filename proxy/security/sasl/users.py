"""The file of users that log in to the sidecar: keys of SCRAM, as Kafka stores them, and never a password.

    alice=SCRAM-SHA-512:salt=...,stored_key=...,server_key=...,iterations=4096

One user and mechanism a line; empty lines and those that begin with # are ignored. `kafka-sidecar scram-user` prints
lines. PLAIN is verified with the keys of either mechanism.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka_sidecar.proxy.security.sasl.scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS, derive_keys

SALT_BYTES = 24
MAX_FILE_BYTES = 16 << 20
FIELDS = ("salt", "stored_key", "server_key", "iterations")
EXAMPLE = "write lines as `kafka-sidecar scram-user NAME` prints them"


class UsersError(ValueError):
    """The file cannot be used; one line that names file, line and remedy, and quotes no key."""


@dataclass(frozen=True, slots=True, repr=False)
class Verifier:
    """What proves that a client knows a password, without the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


Users = Mapping[tuple[str, str], Verifier]  # by mechanism and user


def create_verifier(mechanism: str, password: str, iterations: int = MIN_ITERATIONS) -> Verifier:
    """A new one, with a salt of its own."""
    salt = secrets.token_bytes(SALT_BYTES)
    keys = derive_keys(HASHES[mechanism], password.encode(), salt, iterations)
    return Verifier(salt, keys.stored_key, keys.server_key, iterations)


def knows(verifier: Verifier, mechanism: str, password: str) -> bool:
    """Whether it is of this password."""
    keys = derive_keys(HASHES[mechanism], password.encode(), verifier.salt, verifier.iterations)
    return hmac.compare_digest(keys.stored_key, verifier.stored_key)


def format_user(name: str, mechanism: str, verifier: Verifier) -> str:
    """A line of the file."""
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (verifier.salt, verifier.stored_key, verifier.server_key)
    )
    fields = f"salt={salt},stored_key={stored},server_key={server},iterations={verifier.iterations}"
    return f"{name}={mechanism}:{fields}"


def read_users(path: Path) -> Users:
    """The users of a file. Raises UsersError."""
    try:
        with path.open("rb") as file:
            lines = file.read(MAX_FILE_BYTES).decode().splitlines()
    except OSError as error:
        raise UsersError(f"{path} cannot be read: {error.strerror}; name a readable file") from None
    except UnicodeDecodeError:
        raise UsersError(f"{path} is not text in UTF-8; {EXAMPLE}") from None
    found: dict[tuple[str, str], Verifier] = {}
    for number, line in _used(lines):
        name, _, rest = line.partition("=")
        mechanism, _, fields = rest.partition(":")
        verifier = _parse(fields) if name and mechanism in HASHES else None
        if verifier is None:
            raise UsersError(f"{path}, line {number}, is no user with its keys; {EXAMPLE}")
        if (mechanism, name) in found:
            raise UsersError(f"{path}, line {number}: {name} is there twice with {mechanism}; remove one of the lines")
        found[mechanism, name] = verifier
    if not found:
        raise UsersError(f"{path} has no users; {EXAMPLE}")
    return found


def _used(lines: list[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith("#"):
            yield number, line


def _parse(text: str) -> Verifier | None:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if tuple(fields) != FIELDS or not fields["iterations"].isdecimal() or len(fields["iterations"]) > 9:
        return None
    try:
        salt, stored, server = (base64.b64decode(fields[name], validate=True) for name in FIELDS[:3])
    except (binascii.Error, ValueError):
        return None
    iterations = int(fields["iterations"])
    is_valid = salt and stored and server and MIN_ITERATIONS <= iterations <= MAX_ITERATIONS
    return Verifier(salt, stored, server, iterations) if is_valid else None
