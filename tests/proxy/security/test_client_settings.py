"""Settings of the Java clients as arguments of aiokafka: what is not understood is an error."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import pytest

from kafka_sidecar.proxy.security.client_settings import REQUEST_TIMEOUT_MS, KafkaSettingError, client_settings

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="app" password="a \\"b\\" c";'


def test_without_settings_a_connection_is_plain_text() -> None:
    assert client_settings(["a:1", "b:2"], {}) == {
        "bootstrap_servers": ["a:1", "b:2"], "client_id": "kafka-sidecar-replay", "security_protocol": "PLAINTEXT",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
    }  # fmt: skip


def test_a_login_is_read_from_the_jaas_config() -> None:
    kafka = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": LOGIN}
    found = client_settings(["a:1"], kafka)
    assert (found["sasl_mechanism"], found["sasl_plain_username"]) == ("SCRAM-SHA-512", "app")
    assert found["sasl_plain_password"] == 'a "b" c'


def test_tls_verifies_the_host_unless_it_is_disabled_as_in_java() -> None:
    verified = client_settings(["a:1"], {"security.protocol": "SSL"})["ssl_context"]
    other = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    assert verified.check_hostname
    assert verified.verify_mode == ssl.CERT_REQUIRED
    assert not client_settings(["a:1"], other)["ssl_context"].check_hostname


def test_numbers_are_numbers() -> None:
    assert client_settings(["a:1"], {"request.timeout.ms": "5000"})["request_timeout_ms"] == 5000


@pytest.mark.parametrize(
    ("kafka", "message"),
    [
        ({"fetch.max.bytes": "1"}, "pipeline.kafka.fetch.max.bytes: is not used here; what is used: client.id"),
        ({"security.protocol": "TLS"}, "security.protocol: TLS is not supported; use one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: GSSAPI is not supported; use one of PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config: write"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "t.jks"}, "ssl.truststore.type: write PEM"),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/missing"},
            "a certificate or key cannot be read",
        ),
        ({"request.timeout.ms": "5s"}, "request.timeout.ms: write a number in place of '5s'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy(kafka: Mapping[str, str], message: str) -> None:
    with pytest.raises(KafkaSettingError) as raised:
        client_settings(["a:1"], kafka)
    assert message in str(raised.value)
