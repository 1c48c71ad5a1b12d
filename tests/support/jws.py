"""Signatures as producers make them, with cryptography alone: not with what the sidecar verifies them with."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

HASHES: dict[str, type[Any]] = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
CURVES = {
    "ES256": ("P-256", ec.SECP256R1, 32), "ES384": ("P-384", ec.SECP384R1, 48), "ES512": ("P-521", ec.SECP521R1, 66),
}  # fmt: skip


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int = 0) -> str:
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def private_key(algorithm: str) -> Any:
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm][1]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(slots=True)
class SigningKey:
    """A private key, and its public half as a JWK."""

    key_id: str | None = "k1"
    algorithm: str = "ES256"
    private: Any = field(default=None)

    def __post_init__(self) -> None:
        self.private = self.private or private_key(self.algorithm)

    @property
    def jwk(self) -> dict[str, Any]:
        return {**self._public(), **({"kid": self.key_id} if self.key_id is not None else {})}

    @property
    def private_jwk(self) -> dict[str, Any]:
        private = self.private
        if isinstance(private, ec.EllipticCurvePrivateKey):
            return {**self.jwk, "d": number(private.private_numbers().private_value, CURVES[self.algorithm][2])}
        if isinstance(private, rsa.RSAPrivateKey):
            own = private.private_numbers()
            names = {"d": own.d, "p": own.p, "q": own.q, "dp": own.dmp1, "dq": own.dmq1, "qi": own.iqmp}
            return {**self.jwk, **{name: number(value) for name, value in names.items()}}
        return {**self.jwk, "d": b64(private.private_bytes_raw())}

    def _public(self) -> dict[str, Any]:
        public = self.private.public_key()
        if isinstance(public, ec.EllipticCurvePublicKey):
            name, _, size = CURVES[self.algorithm]
            at = public.public_numbers()
            return {"kty": "EC", "crv": name, "x": number(at.x, size), "y": number(at.y, size)}
        if isinstance(public, rsa.RSAPublicKey):
            of = public.public_numbers()
            return {"kty": "RSA", "n": number(of.n), "e": number(of.e)}
        curve = "Ed448" if isinstance(public, ed448.Ed448PublicKey) else "Ed25519"
        return {"kty": "OKP", "crv": curve, "x": b64(public.public_bytes_raw())}

    def sign(self, value: bytes, form: str = "detached", **header: Any) -> bytes:
        """A JWS; the form is attached, detached or plain (RFC 7797, detached)."""
        named = {"kid": self.key_id} if self.key_id is not None else {}
        plain = {"b64": False, "crit": ["b64"]} if form == "plain" else {}
        return self.sign_header(json.dumps({"alg": self.algorithm, **named, **plain, **header}).encode(), value, form)

    def sign_header(self, header: bytes, value: bytes, form: str = "detached") -> bytes:
        protected = b64(header)
        payload = value if form == "plain" else b64(value).encode()
        signature = b64(self.raw(protected.encode() + b"." + payload))
        return f"{protected}.{payload.decode() if form == 'attached' else ''}.{signature}".encode()

    def raw(self, data: bytes) -> bytes:
        """The signature itself."""
        private, algorithm = self.private, self.algorithm
        if algorithm == "EdDSA":
            return bytes(private.sign(data))
        digest = HASHES[algorithm[2:]]()
        if algorithm in CURVES:
            size = CURVES[algorithm][2]
            r, s = decode_dss_signature(private.sign(data, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if algorithm.startswith("PS"):
            return bytes(private.sign(data, padding.PSS(padding.MGF1(digest), digest.digest_size), digest))
        return bytes(private.sign(data, padding.PKCS1v15(), digest))


def key_set(*keys: SigningKey) -> str:
    return json.dumps({"keys": [key.jwk for key in keys]})
