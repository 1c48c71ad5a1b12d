"""Signatures of records: compared with jose4j, which Kafka's Java clients have; and keys of an endpoint."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front, started
from integration.scenarios.target import LIMIT_S, SILENT
from support.jws import SigningKey, key_set

from kafka_sidecar.policies.builtin.jws import ALGORITHMS, YOUNG_S
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.testing import check

pytestmark = pytest.mark.integration

FORMS = ("attached", "detached", "plain")
NAME = "kroxylicious.io/jws"
VALUES = (b'{"order": 17}', b"", bytes(range(256)))
KEYS = {algorithm: SigningKey(algorithm, algorithm) for algorithm in ALGORITHMS}
CASES = [
    (algorithm, form, value)
    for algorithm in ALGORITHMS
    for form in FORMS
    for value in VALUES
    # jose4j, as the RFC, takes an empty payload for a detached one; and reads plain payloads as UTF-8.
    if not (form == "attached" and not value) and not (form == "plain" and value == VALUES[2])
]


def test_what_jose4j_signs_is_right_here(java: Mapping[str, ToolHost], tmp_path: Path) -> None:
    tasks = [
        "\t".join(("sign", algorithm, form, value.hex(), json.dumps(KEYS[algorithm].private_jwk)))
        for algorithm, form, value in CASES
    ]
    lines = java[NEWEST].run("SignedValues", *tasks).splitlines()
    assert len(lines) == len(CASES)
    (tmp_path / "keys").write_text(key_set(*KEYS.values()))
    plan = PolicyCatalog({"jws": PolicySettings("jws", settings={"jwks_file": str(tmp_path / "keys")})}).plan("jws")
    policy = plan.rules[0].policy
    found = [
        check(policy, value=value, headers={NAME: line.encode()})
        for (_, _, value), line in zip(CASES, lines, strict=True)
    ]
    assert found == [None] * len(CASES)
    wrong = [
        check(policy, value=value + b"!", headers={NAME: line.encode()})
        for (_, _, value), line in zip(CASES, lines, strict=True)
    ]
    assert None not in wrong


def test_what_is_right_here_is_right_for_jose4j(java: Mapping[str, ToolHost]) -> None:
    tasks = [
        "\t".join((
            "verify", KEYS[algorithm].sign(value, form).decode(), "attached" if form == "attached" else "detached",
            value.hex(), json.dumps(KEYS[algorithm].jwk),
        ))
        for algorithm, form, value in CASES
    ]  # fmt: skip
    assert java[NEWEST].run("SignedValues", *tasks).splitlines() == ["true"] * len(CASES)


class Keys:
    """An endpoint with keys, and how often it is asked."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys, self.requests, self.status = keys, 0, 200
        own = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.requests += 1
                self.send_response(own.status)
                self.end_headers()
                self.wfile.write(key_set(*own.keys).encode())

            def log_message(self, *arguments: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/keys"


RULES = """
policies: {{jws: {{jwks_endpoint: "{url}"}}}}
topics: [{{name: "signed-*", policy: jws, consume: hide}}]
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Keys]:
    keys = Keys(KEYS["ES256"])
    yield keys
    keys.server.shutdown()
    keys.server.server_close()


@pytest.fixture(scope="module")
def front(endpoint: Keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("signed"), RULES.format(url=endpoint.url)) as (cluster, sidecar):
        yield Front(cluster, sidecar)


def sent(front: Front, topic: str, *records: tuple[bytes, bytes]) -> list[str | None]:
    """The errors of records (value and JWS), each a batch of its own."""
    producer = Producer({"bootstrap.servers": front.sidecar.bootstrap, "logger": SILENT, "linger.ms": 0})
    errors: list[str | None] = []
    for value, jws in records:
        try:
            producer.produce(
                topic, value, headers=[(NAME, jws)],
                on_delivery=lambda error, _: errors.append(error.name() if error is not None else None),
            )  # fmt: skip
        except KafkaException as error:
            raise AssertionError(error) from error
        assert producer.flush(LIMIT_S) == 0
    return errors


def test_a_signed_record_is_stored_and_another_one_is_not(front: Front, endpoint: Keys) -> None:
    topic, key = front.topic("signed-one"), KEYS["ES256"]
    value = VALUES[0]
    wrong = [key.sign(b"other"), b"no JWS", KEYS["RS256"].sign(value)]
    assert sent(front, topic, (value, key.sign(value)), *((value, jws) for jws in wrong)) == [
        None,
        *["INVALID_RECORD"] * 3,
    ]
    assert front.stored(topic) == [value]
    assert endpoint.requests <= 3


def test_a_new_key_is_accepted_without_a_restart_and_an_outage_costs_nothing(front: Front, endpoint: Keys) -> None:
    topic, new, value = front.topic("signed-rotated"), KEYS["EdDSA"], VALUES[0]
    time.sleep(YOUNG_S + 0.1)
    endpoint.keys = (KEYS["ES256"], new)
    assert sent(front, topic, (value, new.sign(value))) == [None]  # it is sent again until the keys were asked for
    endpoint.status = 503
    assert sent(front, topic, (value, new.sign(value)), (value, KEYS["ES256"].sign(value))) == [None, None]
    endpoint.status = 200


def test_random_key_ids_make_few_requests(front: Front, endpoint: Keys) -> None:
    topic, key, value = front.topic("signed-random"), KEYS["ES256"], VALUES[0]
    before = endpoint.requests
    producer = Producer({"bootstrap.servers": front.sidecar.bootstrap, "logger": SILENT, "batch.num.messages": 1})
    for number in range(300):
        producer.produce(topic, value, headers=[(NAME, key.sign(value, kid=f"random {number}"))])
    producer.flush(5)
    assert sent(front, topic, (value, key.sign(value))) == [None]
    producer.purge()
    producer.flush(LIMIT_S)
    assert endpoint.requests - before <= 3
