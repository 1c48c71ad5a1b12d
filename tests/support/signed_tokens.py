"""Tokens as an authorization server signs them, and its keys as a JWK set."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


def _rsa() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(slots=True)
class Signer:
    """One key of the server."""

    key_id: str
    private: Any = field(default_factory=_rsa)
    algorithm: str = "RS256"

    @classmethod
    def elliptic(cls, key_id: str) -> Signer:
        return cls(key_id, ec.generate_private_key(ec.SECP256R1()), "ES256")

    def token(self, name: str = "alice", lifetime_s: float = 60, **claims: Any) -> str:
        all_claims = {"sub": name, "exp": time.time() + lifetime_s, "iat": time.time(), **claims}
        return jwt.encode(all_claims, self.private, self.algorithm, {"kid": self.key_id})

    @property
    def jwk(self) -> dict[str, Any]:
        kind = RSAAlgorithm if self.algorithm.startswith(("R", "P")) else ECAlgorithm
        return {**kind.to_jwk(self.private.public_key(), as_dict=True), "kid": self.key_id, "use": "sig"}


def key_set(*signers: Signer) -> str:
    return json.dumps({"keys": [one.jwk for one in signers]})
