"""Four clients that write and read one topic, each with its own words for SASL."""

from __future__ import annotations

import asyncio
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer
from harness.sasl import MODULES, token
from harness.tool_host import ToolHost
from integration.scenarios import aiokafka_client, kafka_python
from integration.scenarios.java_tools import Tools
from integration.scenarios.target import LIMIT_S, SILENT, Target

from kafka_sidecar.proxy.security.sasl.tokens import expiry_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

Settings = dict[str, Any]
REJECTED = (KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN)  # the client would go on until the values expire
# Sends the values to a new topic of this name and reads them back: (target, topic, values, mechanism, user, password).
# Without a mechanism it does not log in. With OAUTHBEARER the password is a signed token, or the user signs none.
RoundTrip = Callable[[Target, str, list[bytes], str | None, str, str], list[bytes]]


def java(
    target: Target, topic: str, values: list[bytes], mechanism: str | None, user: str, password: str
) -> list[bytes]:
    lines: dict[str, str | None] = {}
    if mechanism:
        lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    tools = Tools(target, next(iter(target.java.values())))
    if mechanism == "OAUTHBEARER" and is_signed(password):
        return _java_with_token(target, topic, values, password)
    if mechanism == "OAUTHBEARER":
        lines["sasl.jaas.config"] = f'{MODULES[mechanism]} unsecuredLoginStringClaim_sub="{user}";'
    elif mechanism is not None:
        lines["sasl.jaas.config"] = f'{MODULES[mechanism]} username="{user}" password="{password}";'
    return _java_with(tools, lines, topic, values)


def is_signed(password: str) -> bool:
    return password.count(".") == 2


def _java_with_token(target: Target, topic: str, values: list[bytes], signed: str) -> list[bytes]:
    """Kafka's own handler reads the token from a file, if a property of its JVM allows that URL."""
    with tempfile.NamedTemporaryFile("w", suffix=".jwt") as file:
        file.write(signed)
        file.flush()
        host = next(iter(target.java.values()))
        host.run("SetProperty", "org.apache.kafka.sasl.oauthbearer.allowed.urls", f"file://{file.name}")
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        lines = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": handler,
            "sasl.jaas.config": f"{MODULES['OAUTHBEARER']};",
            "sasl.oauthbearer.token.endpoint.url": f"file://{file.name}",
            "sasl.oauthbearer.jwt.retriever.class": f"{handler.rpartition('.')[0]}.FileJwtRetriever",
        }  # fmt: skip
        return _java_with(Tools(target, host), lines, topic, values)


def _java_with(tools: Tools, lines: Mapping[str, str | None], topic: str, values: list[bytes]) -> list[bytes]:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write("".join(f"{key}={value}\n" for key, value in lines.items()))
        file.flush()
        tools.run("TopicCommand", "--list", "--command-config", file.name)  # it fails where the others only log
        text = "".join(f"{value.decode()}\n" for value in values)
        tools.run("ConsoleProducer", "--topic", topic, "--command-config", file.name, stdin=text)
        printed = tools.run(
            "ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", len(values), "--command-config",
            file.name, "--timeout-ms", 20000,
        )  # fmt: skip
    return [line.encode() for line in printed.splitlines() if line.encode() in values]


def librdkafka(
    target: Target, topic: str, values: list[bytes], mechanism: str | None, user: str, password: str
) -> list[bytes]:
    settings: Settings = {"bootstrap.servers": target.bootstrap, "logger": SILENT}
    if mechanism is not None:
        settings |= {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER" and is_signed(password):
        settings["oauth_cb"] = lambda _: (password, expiry_of(password))
    elif mechanism == "OAUTHBEARER":
        settings |= {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={user}"}
    elif mechanism is not None:
        settings |= {"sasl.username": user, "sasl.password": password}
    errors: list[KafkaError | None] = []
    fatal: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": fatal.append, "message.timeout.ms": 10_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    ends = time.monotonic() + LIMIT_S
    while producer.flush(0.2) and not any(error.code() in REJECTED for error in fatal) and time.monotonic() < ends:
        pass
    if any(errors) or (fatal and not errors):
        raise RuntimeError(f"{errors} {fatal}")
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        read: list[bytes] = []
        while len(read) < len(values):
            message = consumer.poll(LIMIT_S)
            assert message is not None, "nothing in time"
            if message.error() is None:
                read.append(message.value() or b"")
    finally:
        consumer.close()
    return read


class _Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


def aiokafka(
    target: Target, topic: str, values: list[bytes], mechanism: str | None, user: str, password: str
) -> list[bytes]:
    async def run() -> list[bytes]:
        settings: Settings = {}
        if mechanism is not None:
            settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _Tokens(password if is_signed(password) else token(user))
        elif mechanism is not None:
            settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
        async with aiokafka_client.producer(target, **settings) as producer:
            for value in values:
                await producer.send_and_wait(topic, value)
        async with aiokafka_client.consumer(target, topic, **settings) as consumer:
            return [record.value for record in await aiokafka_client.poll(len(values), consumer)]

    return asyncio.run(asyncio.wait_for(run(), LIMIT_S + 10))


class _KafkaPythonTokens(KafkaPythonTokenProvider):  # type: ignore[misc] # kafka-python has no types
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def kafkapython(
    target: Target, topic: str, values: list[bytes], mechanism: str | None, user: str, password: str
) -> list[bytes]:
    settings: Settings = {}
    if mechanism is not None:
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _KafkaPythonTokens(password if is_signed(password) else token(user))
    elif mechanism is not None:
        settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
    with kafka_python.producer(target, **settings) as producer:
        for value in values:
            producer.send(topic, value).get(LIMIT_S)
    with kafka_python.consumer(target, topic, **settings) as consumer:
        return [record.value for record in kafka_python.poll(len(values), consumer)]


CLIENTS: Mapping[str, RoundTrip] = {
    "java": java, "librdkafka": librdkafka, "aiokafka": aiokafka, "kafka-python": kafkapython,
}  # fmt: skip


def target_of(bootstrap: str, host: ToolHost) -> Target:
    return Target(bootstrap, "sasl", 1, {host.version: host})
