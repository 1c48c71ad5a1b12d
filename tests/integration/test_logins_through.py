"""Clients that log in to the broker through a sidecar are checked as who they are, however they log in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.raw import Raw, login_frames, mechanisms_in, token_frame, token_in
from integration.scenarios.target import create_topic
from integration.validation.batches import batch, record

from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_sidecar.proxy.security.sasl.scram import derive_keys, from_base64, parse_fields, xor

pytestmark = pytest.mark.integration

BOB, PASSWORD = "bob", "pw-of-bob"
DENIED, PRODUCE = 29, 9
MECHANISM, HASH = "SCRAM-SHA-256", "sha256"
# Who may write is everybody but one user.
RULES = f"""
authorization:
  rules:
    - {{principals: ["User:*"], topics: ["*"]}}
    - {{principals: ["User:{sasl.USER}"], topics: [orders], operations: [write], permission: deny}}
"""


@pytest.fixture(scope="module", name="bootstraps")
def _bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    work = tmp_path_factory.mktemp("logins")
    settings = work / "sidecar.yaml"
    settings.write_text(RULES)
    with Cluster.start(NEWEST, 1, sasl.sasl_properties()) as cluster:
        sasl.add_scram_user(cluster.direct)
        sasl.add_scram_user(cluster.direct, BOB, PASSWORD)
        create_topic(cluster.direct, "orders", 1)
        with started(cluster, work / "sidecar.log", settings) as sidecar:
            yield {"broker": cluster.bootstrap, "sidecar": sidecar.bootstrap}


def started(cluster: Cluster, log: Path, settings: Path) -> Sidecar:
    """A sidecar that cannot log in itself: it is not ready, and relays all the same."""
    sidecar = Sidecar(cluster.bootstrap, log, ["--config", str(settings)])
    sidecar.program.wait_for(lambda: '"serving"' in sidecar.program.output(), "serving", 20)
    return sidecar


def produce() -> bytes:
    data = PartitionProduceData(index=0, records=batch(record(0, b"1", (), key=None), 1))
    topics = (TopicProduceData(name="orders", partition_data=(data,)),)
    return encode_request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), PRODUCE, 9, "raw")


def written(frame: bytes) -> int:
    """The error of the partition."""
    message = decode_response(ProduceResponse, frame, PRODUCE).message
    return message.responses[0].partition_responses[0].error_code


def scram(at: Raw, user: str, password: str, before: str = "", after: str = "") -> Callable[[], int]:
    """SCRAM with something before the name, which Kafka does not sign, and after the nonce.

    What is returned sends a Produce in the segment of the proof.
    """
    first = f"n={user},r={secrets.token_hex(8)}{after}"
    at.send(*login_frames(MECHANISM, [f"n,,{before}{first}".encode()]))
    assert MECHANISM in mechanisms_in(at.read())
    challenge = token_in(at.read())
    fields = parse_fields(challenge)
    keys = derive_keys(HASH, password.encode(), from_base64(fields["s"]), int(fields["i"]))
    final = b"c=biws,r=" + fields["r"].encode()
    signature = hmac.digest(keys.stored_key, b",".join((first.encode(), challenge, final)), HASH)
    proof = base64.b64encode(xor(keys.client_key, signature))
    assert hashlib.new(HASH, keys.client_key).digest() == keys.stored_key

    def send() -> int:
        at.send(token_frame(final + b",p=" + proof), produce())
        token_in(at.read())
        return written(at.read())

    return send


def test_a_produce_in_one_segment_with_a_login_is_that_clients(bootstraps: dict[str, str]) -> None:
    found = {}
    for at, bootstrap in bootstraps.items():
        with Raw(bootstrap) as client:
            client.send(*login_frames("PLAIN", [f"\0{sasl.USER}\0{sasl.PASSWORD}".encode()]), produce())
            mechanisms_in(client.read())
            token_in(client.read())
            found[at] = written(client.read())
    assert found == {"broker": 0, "sidecar": DENIED}  # the broker has no ACLs here


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("m=any,", ""), ("m=n=bob,", ""), ("", ",any=thing"), ("m=x,", ",tokenauth=false")]
)
def test_extensions_of_scram_that_the_broker_reads_over_hide_no_name(
    bootstraps: dict[str, str], before: str, after: str
) -> None:
    for at, expected in (("broker", 0), ("sidecar", DENIED)):
        with Raw(bootstraps[at]) as client:
            assert scram(client, sasl.USER, sasl.PASSWORD, before, after)() == expected
        with Raw(bootstraps[at]) as client:
            assert scram(client, BOB, PASSWORD, before, after)() == 0


def test_a_token_whose_user_only_the_broker_knows_is_allowed_nothing_that_others_are(
    bootstraps: dict[str, str],
) -> None:
    for at, expected in (("broker", 0), ("sidecar", DENIED)):
        with Raw(bootstraps[at]) as client:
            client.send(*login_frames("OAUTHBEARER", [f"n,,\1auth=Bearer {sasl.token(BOB)}\1\1".encode()]), produce())
            mechanisms_in(client.read())
            token_in(client.read())
            assert written(client.read()) == expected


def test_a_client_that_the_broker_rejects_gets_its_error(bootstraps: dict[str, str]) -> None:
    with Raw(bootstraps["sidecar"]) as client:
        client.send(*login_frames("PLAIN", [b"\0app\0wrong"]), produce())
        mechanisms_in(client.read())
        with pytest.raises(AssertionError, match="Invalid username or password"):
            token_in(client.read())
        assert client.read() == b""
