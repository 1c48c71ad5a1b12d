"""Signatures of records: keys that do not exist, and many wrong signatures of a key that costs the most."""

from __future__ import annotations

import http.server
import threading
from functools import cache
from pathlib import Path

from integration.validation.batches import batch, record
from support.jws import SigningKey, key_set

from hostile.attacks import Attack, sends
from hostile.wire import produce

NAME = "kroxylicious.io/jws"
VALUE = b'{"order": 17}'
TOPICS = ("signed",)


@cache
def key() -> SigningKey:
    return SigningKey("known", "ES512")


@cache
def endpoint() -> str:
    """Serves the keys for as long as this process runs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(key_set(key()).encode())

        def log_message(self, *arguments: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/keys"


def configured(folder: Path) -> tuple[str, str]:
    """What is added to the policies, and to the topics, of the sidecar's configuration."""
    return f"  signed: {{type: jws, jwks_endpoint: {endpoint()}}}\n", "  - {name: signed, policy: signed}\n"


def signed(*signatures: bytes) -> bytes:
    records = b"".join(record(at, VALUE, ((NAME, one),), key=None) for at, one in enumerate(signatures))
    return produce([(b"signed", [(0, batch(records, len(signatures)))])])


def random_keys() -> bytes:
    """A thousand batches, each of another key that does not exist."""
    named = (key().sign_header(b'{"alg": "ES512", "kid": "random %d"}' % number, VALUE) for number in range(1000))
    return b"".join(map(signed, named))


def wrong_ones() -> bytes:
    """5,000 signatures of another value in one batch."""
    return signed(*[key().sign(b"another value")] * 5000)


SIGNATURES = (
    Attack("84: jws: 1,000 keys that do not exist, on 8 connections", sends(random_keys, 8, 20)),
    Attack("85: jws: 5,000 wrong signatures (ES512) in one batch, on 8 connections", sends(wrong_ones, 8, 20)),
)
