"""The server's side of the mechanisms: each takes a client's tokens and returns who it is."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

from kafka_sidecar.proxy.security.sasl.scram import (
    GS2_HEADER,
    HASHES,
    ScramError,
    from_base64,
    parse_fields,
    xor,
)
from kafka_sidecar.proxy.security.sasl.users import Users, Verifier, create_verifier, knows


class KnownPasswords:
    """The passwords with which users have logged in since the process was started, the last one of each: to verify it
    again takes microseconds.

    None is kept: of each there is a hash with a key that only this process has, as long as the user's own keys stay.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}  # by name: there are not more than users

    def has(self, name: str, verifier: Verifier, password: str) -> bool:
        known = self._known.get(name)
        return known is not None and hmac.compare_digest(known, self._hash(name, verifier, password))

    def add(self, name: str, verifier: Verifier, password: str) -> None:
        """The user has logged in with it."""
        self._known[name] = self._hash(name, verifier, password)

    def _hash(self, name: str, verifier: Verifier, password: str) -> bytes:
        return hmac.digest(self._key, b"\0".join((verifier.stored_key, name.encode(), password.encode())), "sha256")


NONCE_CHARS = 200  # at most, of a client
_DUMMY = create_verifier("SCRAM-SHA-256", "")


class RejectedError(Exception):
    """The client is not let in. The text is for the client, and says no more than Kafka's."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A client that has proved who it is."""

    name: str
    token: bytes = b""  # the last one for the client
    expires_at: float | None = None  # seconds since 1970; None: never


# Begun by `next`; is sent the client's tokens, yields those for the client.
Verification = Generator[bytes, bytes, Accepted]


def plain(users: Users, known: KnownPasswords) -> Verification:
    """PLAIN (RFC 4616), verified with the keys of SCRAM."""
    token = yield b""
    try:
        authorization, name, password = _parse_plain(token)
    except ValueError:
        raise RejectedError("Authentication failed: Invalid username or password") from None
    own = _own_verifiers(users, name)
    mechanism, verifier = own[0] if own else _stand_in(users, name, *HASHES)
    is_right = (bool(own) and known.has(name, verifier, password)) or knows(verifier, mechanism, password)
    if not is_right or not own or authorization not in ("", name):
        raise RejectedError("Authentication failed: Invalid username or password")
    known.add(name, verifier, password)
    return Accepted(name)


def is_known(token: bytes, users: Users, known: KnownPasswords) -> bool:
    """Whether a token of PLAIN has a password that need not be computed with."""
    try:
        _, name, password = _parse_plain(token)
    except ValueError:
        return False
    own = _own_verifiers(users, name)
    return bool(own) and known.has(name, own[0][1], password)


def _parse_plain(token: bytes) -> tuple[str, str, str]:
    """Raises ValueError: another number of parts, or no text."""
    authorization, name, password = (part.decode() for part in token.split(b"\0"))
    return authorization, name, password


def _own_verifiers(users: Users, name: str) -> list[tuple[str, Verifier]]:
    return [(mechanism, users[mechanism, name]) for mechanism in HASHES if (mechanism, name) in users]


def scram(mechanism: str, users: Users, nonce: str) -> Verification:
    """SCRAM (RFC 5802) as Kafka's brokers answer it."""
    rejected = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    hash_name = HASHES[mechanism]
    client_first = yield b""
    try:
        name, first_bare, client_nonce = _parse_first(client_first)
        verifier = users.get((mechanism, name), None)
        known = verifier or _stand_in(users, name, mechanism)[1]
        salt = base64.b64encode(known.salt)
        server_first = b"r=%s%s,s=%s,i=%d" % (client_nonce, nonce.encode(), salt, known.iterations)
        client_final = yield server_first
        proof = _parse_final(client_final, client_nonce + nonce.encode())
        if verifier is None:
            raise RejectedError(rejected)
        signed = b",".join((first_bare, server_first, client_final.rpartition(b",p=")[0]))
        client_key = xor(proof, hmac.digest(verifier.stored_key, signed, hash_name))
    except (ScramError, ValueError):  # the latter: a proof of another length
        raise RejectedError(rejected) from None
    if not hmac.compare_digest(_hash(hash_name, client_key), verifier.stored_key):
        raise RejectedError(rejected)
    return Accepted(name, b"v=" + base64.b64encode(hmac.digest(verifier.server_key, signed, hash_name)))


def _stand_in(users: Users, name: str, *mechanisms: str) -> tuple[str, Verifier]:
    """For a user that does not exist: what another one has, with a salt of its own that stays the same in all workers.
    Neither time nor challenge then says which names exist."""
    models = ((kind, model) for (kind, _), model in users.items() if kind in mechanisms)
    mechanism, model = next(models, (mechanisms[0], _DUMMY))
    salt = hmac.digest(model.server_key, name.encode(), "sha256")[: len(model.salt)]
    return mechanism, replace(model, salt=salt)


def bearer_token(response: bytes) -> str:
    """The token in a client's first response (RFC 7628, section 3.1). Raises RejectedError."""
    pairs = dict(part.partition(b"=")[::2] for part in response.split(b"\1")[1:-2])
    kind, _, value = pairs.get(b"auth", b"").partition(b" ")
    if kind.lower() != b"bearer" or not value.isascii():
        raise RejectedError("no bearer token")
    return value.decode()


def oauthbearer(verify: Callable[[str], Accepted]) -> Verification:
    """OAUTHBEARER (RFC 7628). ``verify`` says whom a token lets in, and raises RejectedError."""
    response = yield b""
    try:
        return verify(bearer_token(response))
    except RejectedError as error:
        yield json.dumps({"status": "invalid_token"}).encode()
        raise RejectedError(f"Authentication failed: the token is not accepted ({error})") from None


def _parse_first(token: bytes) -> tuple[str, bytes, bytes]:
    """User, the part that is signed, the client's nonce. Raises ScramError."""
    if not token.startswith(GS2_HEADER):
        raise ScramError("an authorization id or channel binding is not supported")
    bare = token[len(GS2_HEADER) :]
    fields = parse_fields(bare)
    nonce = fields.get("r", "")
    if list(fields)[:2] != ["n", "r"] or not 0 < len(nonce) <= NONCE_CHARS:
        raise ScramError("a field is missing")
    return fields["n"].replace("=2C", ",").replace("=3D", "="), bare, nonce.encode()


def _parse_final(token: bytes, nonce: bytes) -> bytes:
    """The proof. Raises ScramError."""
    fields = parse_fields(token)
    if list(fields) != ["c", "r", "p"] or from_base64(fields["c"]) != GS2_HEADER or fields["r"].encode() != nonce:
        raise ScramError("a field is wrong")
    return from_base64(fields["p"])


def _hash(name: str, data: bytes) -> bytes:
    return hashlib.new(name, data).digest()
