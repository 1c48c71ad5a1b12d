"""Brokers of the tests that require SASL on the sidecar's listener, and the server of their OAuth tokens."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "app", "sekret-of-app"
CLIENT_ID, CLIENT_SECRET = "client-7", "sekret-of-client"
_MODULE = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f"{_MODULE}.plain.PlainLoginModule required",
    "SCRAM-SHA-256": f"{_MODULE}.scram.ScramLoginModule required",
    "SCRAM-SHA-512": f"{_MODULE}.scram.ScramLoginModule required",
    "OAUTHBEARER": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required",
}
_OTHERS = "DIRECT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
_LISTENER = "listener.name.sidecar"


def sasl_properties(protocol: str = "SASL_PLAINTEXT", reauthentication_ms: int = 0) -> dict[str, object]:
    """Of a broker whose clients may use any of the mechanisms; tokens are not signed."""
    return {
        "listener.security.protocol.map": f"SIDECAR:{protocol},{_OTHERS}",
        f"{_LISTENER}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{_LISTENER}.plain.sasl.jaas.config": f'{MODULES["PLAIN"]} user_{USER}="{PASSWORD}";',
        f"{_LISTENER}.scram-sha-256.sasl.jaas.config": f"{MODULES['SCRAM-SHA-256']};",
        f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{MODULES['SCRAM-SHA-512']};",
        f"{_LISTENER}.oauthbearer.sasl.jaas.config": f'{MODULES["OAUTHBEARER"]} unsecuredLoginStringClaim_sub="x";',
        f"{_LISTENER}.connections.max.reauth.ms": reauthentication_ms,
    }


def add_scram_user(direct: str, user: str = USER, password: str = PASSWORD) -> None:
    """Let a user log in with both SCRAM mechanisms; returns once the broker knows it."""
    admin = AdminClient({"bootstrap.servers": direct})
    both = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        for mechanism in both
    ]
    for one in changes:
        for future in admin.alter_user_scram_credentials([one]).values():
            future.result(20)
    while _mechanisms_of(user, admin) < len(both):
        time.sleep(0.05)


def _mechanisms_of(user: str, admin: AdminClient) -> int:
    described = admin.describe_user_scram_credentials([user])
    assert isinstance(described, dict)
    return len(described[user].result(20).scram_credential_infos)


def token(subject: str, lifetime_s: float = 600) -> str:
    """An unsigned JWT, as the broker's default handler accepts it."""
    claims = {"sub": subject, "iat": time.time() - 1, "exp": time.time() + lifetime_s}
    return ".".join(map(_encode, ({"alg": "none"}, claims))) + "."


def _encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


class TokenEndpoint(ThreadingHTTPServer):
    """An OAuth server for client credentials; ``requests`` are the forms that it was sent."""

    def __init__(self, lifetime_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Tokens)
        self.lifetime_s = lifetime_s
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Tokens(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        self.server.requests.append(self.rfile.read(int(self.headers["content-length"])).decode())
        login = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.headers["authorization"] != f"Basic {login}":
            self._respond(401, {"error": "invalid_client"})
            return
        lifetime_s = self.server.lifetime_s
        self._respond(200, {"access_token": token(USER, lifetime_s), "expires_in": lifetime_s})

    def log_message(self, *_: object) -> None:
        return

    def _respond(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def token_endpoint(lifetime_s: float = 600) -> Iterator[TokenEndpoint]:
    """A running one."""
    server = TokenEndpoint(lifetime_s)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
