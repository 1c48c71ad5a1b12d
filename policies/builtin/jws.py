"""Records that are signed: a JSON Web Signature in a header, over the record's value (RFC 7515, RFC 7797)."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field, model_validator

from kafka_sidecar.outbound.http import ClientTls
from kafka_sidecar.plugins.settings import Settings, SettingsPath, read_settings, reject_argument
from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.policies.contract import (
    ALL,
    Fault,
    Hints,
    RecordValidationPolicy,
    TopicMetadata,
    UnavailableError,
    Unresolved,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.outbound.jwks import Key, KeyEndpoint

try:
    import json

    from jwt.algorithms import get_default_algorithms

    from kafka_sidecar.outbound import jwks
except ImportError:  # an extra: it brings a library of cryptography
    jwks = None  # type: ignore[assignment]

NOT_INSTALLED = "PyJWT is not installed; in a clone, pip install '.[jwt]'"
Algorithm = Literal[
    "ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"
]  # RFC 7518 and RFC 8037, without shared secrets and without none
ALGORITHMS: tuple[Algorithm, ...] = (
    "ES256", "ES384", "ES512", "EdDSA", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip

MAX_HEADER_CHARS = 8192  # of a JOSE header, encoded
MAX_SIGNATURE_CHARS = 4096  # encoded; of an RSA key of 16384 bits 2731
MAX_KEYS = 8  # that are tried for a signature that names none
CACHED_CHARS = 1024  # of a JOSE header that is kept: a producer's records have the same one
CACHED = 256
UNDERSTOOD = frozenset({"b64"})  # of critical extensions (RFC 7797)
PAUSE_S = 10.0  # between two requests because of keys that are not known
YOUNG_S = 1.0  # after an answer its keys are the current ones: a key that is not among them does not exist
KEYS = "keys"

NO_SIGNATURE = "Topic %s requires records to have a signature (JWS) in the header %s"
MALFORMED = "Topic %s requires the header %s to be a JWS in compact form: %s"
ALGORITHM = "Topic %s requires the signature in the header %s to be of one of the algorithms %s"
CRITICAL = "Topic %s requires the signature in the header %s to have no critical extension but b64"
UNKNOWN_KEY = "Topic %s requires the signature in the header %s to be of a known key"
FORM = "Topic %s requires the signature in the header %s to be %s"
OTHER_PAYLOAD = "Topic %s requires the payload of the signature in the header %s to be the record's value"
WRONG = "Topic %s requires the signature in the header %s to be right"


class JwsSettings(Settings):
    jwks_file: SettingsPath | None = None
    """File with the keys (JWK set, RFC 7517), relative to the configuration file; it is read again when it changes."""
    jwks_endpoint: str | None = Field(default=None, pattern=r"^https?://[^/?#@]+([/?#]|$)")
    """Where they are requested instead."""
    jwks_refresh: Duration = Field(default=3600.0, gt=0, json_schema_extra={"default": "1h"})
    """How often they are requested."""
    jwks_ca: SettingsPath | None = None
    """PEM file with the certificates that are trusted for the endpoint; default: the system's."""
    header: str = Field(default="kroxylicious.io/jws", min_length=1)
    """Key of the record header with the signature; of several, the last one counts."""
    required: bool = True
    """Whether a record must have that header."""
    algorithms: tuple[Algorithm, ...] = Field(default=ALGORITHMS, min_length=1)
    """Signature algorithms that are accepted, each with keys of its kind alone."""
    content: Literal["any", "attached", "detached"] = "any"
    """Whether the JWS contains the value (`attached`, which then must be equal to the record's) or not (`detached`)."""
    allow_null: bool = False
    """Whether a record whose value is null needs no signature; otherwise it is signed as an empty value."""

    @model_validator(mode="after")
    def _check(self) -> JwsSettings:
        if (self.jwks_file is None) == (self.jwks_endpoint is None):
            raise ValueError("needs keys: set jwks_file or jwks_endpoint, one of them")
        if self.jwks_ca is not None and not (self.jwks_endpoint or "").startswith("https:"):
            raise ValueError("jwks_ca has no effect: jwks_endpoint does not begin with https:")
        return self


class _Keys(Protocol):
    """Where keys are from."""

    @property
    def known(self) -> tuple[Key, ...]: ...

    def require(self, key_id: str | None) -> None:
        """Raises Unresolved, UnavailableError: whether there is such a key cannot be said now."""
        ...


@dataclass(frozen=True, slots=True)
class _FileKeys:
    known: tuple[Key, ...]

    def require(self, key_id: str | None) -> None:
        """All that there are, are known."""


@dataclass(frozen=True, slots=True)
class _EndpointKeys:
    endpoint: KeyEndpoint

    @property
    def known(self) -> tuple[Key, ...]:
        """Raises Unresolved where it is time to ask again."""
        if self.endpoint.is_old:
            raise self._unresolved()
        return self.endpoint.known

    def require(self, key_id: str | None) -> None:
        endpoint = self.endpoint
        if endpoint.is_due(key_id):
            raise self._unresolved()
        if not endpoint.known:
            raise UnavailableError(f"the keys are not known: {endpoint.failure}")
        if not endpoint.are_current or endpoint.answered_s_ago > YOUNG_S:
            raise UnavailableError("the key of a signature is not known; the keys are asked for again soon")

    def _unresolved(self) -> Unresolved:
        return Unresolved((KEYS, self.endpoint.requests))  # another one each time: it is not asked for ever


class Jws(RecordValidationPolicy):
    """Records have a signature of a known key in a header, over their values."""

    settings = JwsSettings.model_construct()
    records_at_once = 100  # a signature takes 40 to 700 us
    bytes_at_once = 1 << 20

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(JwsSettings, configs)
        if jwks is None:
            raise ValueError(NOT_INSTALLED)
        self._header = own.header.encode()
        self._verifiers: Mapping[str, Any] = {
            name: one for name, one in get_default_algorithms().items() if name in own.algorithms
        }
        self._keys: _Keys
        if own.jwks_file is not None:
            found = jwks.read_keys(Path(own.jwks_file))  # KeysError is a ValueError
            self._keys = _FileKeys(tuple(key for key in found if set(key.algorithms) & set(own.algorithms)))
            if not self._keys.known:
                raise ValueError(f"jwks_file: {own.jwks_file} has no key for {', '.join(own.algorithms)}")
            return
        assert own.jwks_endpoint is not None
        tls = ClientTls(str(own.jwks_ca)) if own.jwks_ca is not None else ClientTls()
        try:
            tls.context()
        except ValueError as error:
            raise ValueError(f"jwks_{error}") from None  # it begins with "ca: "
        fetch = partial(jwks.fetch_keys, tls=tls)
        self._keys = _EndpointKeys(jwks.KeyEndpoint(own.jwks_endpoint, own.jwks_refresh, fetch, pause_s=PAUSE_S))

    def hints(self) -> Hints:
        return Hints(access_headers=True, access_value_bytes=ALL)

    def check(self, text: str) -> None:
        reject_argument(text)

    def files(self) -> Iterable[Path]:
        return [Path(one) for one in (self.settings.jwks_file, self.settings.jwks_ca) if one is not None]

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        own = self.settings
        for record in records:
            header = record.header(self._header)
            value = record.value
            if header is None or header.value is None:
                if own.required and not (own.allow_null and value is None):
                    yield Fault(record.index, NO_SIGNATURE % (topic.topic, own.header), "no_signature")
                continue
            try:
                self._verify(header.value, value or b"")
            except _WrongError as error:
                yield Fault(record.index, error.text % (topic.topic, own.header, *error.about), error.reason)

    async def resolve(self, key: object) -> None:
        assert isinstance(self._keys, _EndpointKeys)
        await self._keys.endpoint.refresh()

    def _verify(self, jws: bytes, value: bytes) -> None:
        """Raises _WrongError, Unresolved, UnavailableError."""
        protected, payload, signature = _split(jws)
        jose = jose_header(protected) if len(protected) <= CACHED_CHARS else parse_jose_header(protected)
        verifier = self._verifiers.get(jose.algorithm)
        if verifier is None:
            raise _WrongError(ALGORITHM, "wrong_algorithm", ", ".join(self.settings.algorithms))
        self._check_payload(payload, value, jose)
        signed = b"%s.%s" % (protected, value if jose.is_plain else encode(value))
        raw = decode(signature, "the signature")
        fitting = [key for key in self._keys.known if jose.algorithm in key.algorithms and _fits(key, jose.key_id)]
        if not fitting:
            self._keys.require(jose.key_id)
            raise _WrongError(UNKNOWN_KEY, "unknown_key")
        if not any(verifier.verify(signed, key.public, raw) for key in fitting[:MAX_KEYS]):
            raise _WrongError(WRONG, "wrong_signature")

    def _check_payload(self, payload: bytes, value: bytes, jose: Jose) -> None:
        content = self.settings.content
        if not payload:
            if content == "attached" and value:
                raise _WrongError(FORM, "wrong_form", "attached: with its payload")
            return
        if content == "detached":
            raise _WrongError(FORM, "wrong_form", "detached: without its payload")
        if payload != (value if jose.is_plain else encode(value)):
            raise _WrongError(OTHER_PAYLOAD, "other_payload")


class _WrongError(Exception):
    """What is wrong with a signature: a message with places for topic, header and more."""

    def __init__(self, text: str, reason: str, *about: str) -> None:
        super().__init__(reason)
        self.text, self.reason, self.about = text, reason, about


@dataclass(frozen=True, slots=True)
class Jose:
    """What counts of a JOSE header."""

    algorithm: str
    key_id: str | None
    is_plain: bool  # the payload is signed as it is, not encoded (RFC 7797)


def _malformed(why: str) -> _WrongError:
    return _WrongError(MALFORMED, "malformed", why)


def _split(jws: bytes) -> tuple[bytes, bytes, bytes]:
    """Protected header, payload and signature, as they are in a JWS in compact form."""
    first, last = jws.find(b".", 0, MAX_HEADER_CHARS + 1), jws.rfind(b".")
    if not 0 < first < last:
        raise _malformed(f"three parts, of which the first has at most {MAX_HEADER_CHARS} characters")
    if len(jws) - last - 1 > MAX_SIGNATURE_CHARS:
        raise _malformed(f"its signature has at most {MAX_SIGNATURE_CHARS} characters")
    return jws[:first], jws[first + 1 : last], jws[last + 1 :]


def decode(text: bytes, part: str) -> bytes:
    """Base64url without padding, and with nothing else in it (RFC 7515 section 2)."""
    if b"+" in text or b"/" in text or b"=" in text:
        raise _malformed(f"{part} is not base64url")
    try:
        return b64decode(text.translate(_TO_BASE64) + b"=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise _malformed(f"{part} is not base64url") from None


_TO_BASE64 = bytes.maketrans(b"-_", b"+/")


def encode(data: bytes) -> bytes:
    """The same in the other direction.

    >>> encode(bytes((3, 236, 255, 224, 193)))
    b'A-z_4ME'
    """
    return urlsafe_b64encode(data).rstrip(b"=")


def parse_jose_header(protected: bytes) -> Jose:
    """Raises _WrongError."""
    text = decode(protected, "its header")
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_reject)
    except (ValueError, RecursionError):
        raise _malformed("its header is JSON, in which no name occurs twice") from None
    if not isinstance(found, dict):
        raise _malformed("its header is a JSON object")
    algorithm, key_id, plain = found.get("alg"), found.get("kid"), found.get("b64", True)
    if not isinstance(algorithm, str):
        raise _malformed("its header has an alg, a string")
    if "kid" in found and not isinstance(key_id, str):
        raise _malformed("its kid is a string")
    _check_critical(found)
    if not isinstance(plain, bool):
        raise _malformed("its b64 is true or false")
    return Jose(algorithm, key_id, not plain)


jose_header: Callable[[bytes], Jose] = lru_cache(CACHED)(parse_jose_header)


def _check_critical(found: Mapping[str, Any]) -> None:
    """What the sender wants to be understood (RFC 7515 section 4.1.11); b64 always has to be (RFC 7797 section 6)."""
    if "crit" not in found:
        if "b64" in found:
            raise _malformed("its crit names b64")
        return
    critical = found["crit"]
    if not isinstance(critical, list) or not critical or not all(isinstance(one, str) for one in critical):
        raise _malformed("its crit is a list of names")
    if len(set(critical)) != len(critical) or not set(critical) <= found.keys():
        raise _malformed("its crit names what the header has, and each once")
    if not set(critical) <= UNDERSTOOD:
        raise _WrongError(CRITICAL, "critical_extension")
    if "b64" in found and "b64" not in critical:
        raise _malformed("its crit names b64")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("twice")
    return found


def _reject(constant: str) -> None:
    raise ValueError(constant)


def _fits(key: Key, key_id: str | None) -> bool:
    return key_id is None or key.key_id == key_id
