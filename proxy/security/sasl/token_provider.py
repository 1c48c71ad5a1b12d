"""The contract of a plug-in that provides tokens for OAUTHBEARER, such as those of AWS MSK IAM or Azure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.plugins.hooks import hooks_of
from kafka_sidecar.plugins.registry import Kind


@dataclass(frozen=True, slots=True)
class Token:
    """One token."""

    value: str = field(repr=False)
    expires_at: float | None = None  # seconds since 1970; None: it is not kept, but asked for with each login
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)  # KIP-342


class TokenProvider:
    """Extend it. Its methods are called in a thread, one at a time."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Called once, with the settings. Raises ValueError where one is invalid."""

    def token(self) -> Token:
        """A token that is valid now. What is raised fails the logins that wait for it, so its text has no secret."""
        raise NotImplementedError


TOKEN_PROVIDERS = Kind(
    "token provider",
    TokenProvider,
    "kafka_sidecar.token_providers",
    {},
    "acme.tokens:Signer",
    hooks_of(TokenProvider),
)
