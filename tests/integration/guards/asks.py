"""How clients ask for something of a topic: each tells the name of Kafka's error."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from harness.tool_host import ToolError, ToolHost
from integration.guards import go_clients
from integration.scenarios.target import LIMIT_S, SILENT

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the way in which it reads its schemas
    from kafka import KafkaAdminClient
    from kafka import errors as python_errors
    from kafka.admin import ConfigResource as PythonResource
    from kafka.admin import ConfigResourceType

GOOD = {"retention.ms": "3600000"}
DONE, REFUSED, EXISTS = "NONE", "POLICY_VIOLATION", "TOPIC_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class Where:
    """A cluster, with a guard or with classes of its own, and the Java clients of the rows."""

    bootstrap: str
    java: ToolHost


Ask = Callable[[Where, str], str]  # asks for something of a topic: the name of Kafka's error
_EXCEPTION = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)Exception")
_NAMES = {"PolicyViolation": REFUSED, "TopicExists": EXISTS, "InvalidConfiguration": "INVALID_CONFIG"}


def tool(main: str, *arguments: str) -> Ask:
    """One of Kafka's tools; TOPIC is replaced by the topic."""

    def ask(where: Where, topic: str) -> str:
        given = [one.replace("TOPIC", topic) for one in arguments]
        try:
            where.java.run(f"org.apache.kafka.tools.{main}", "--bootstrap-server", where.bootstrap, *given)
        except ToolError as error:
            if (found := _EXCEPTION.search(str(error))) is None:
                raise
            return _NAMES[found[1]]
        return DONE

    return ask


def topics(*arguments: str) -> Ask:
    return tool("TopicCommand", *arguments, "--topic", "TOPIC")


def configs(*arguments: str) -> Ask:
    return tool("ConfigCommand", "--entity-type", "topics", "--entity-name", "TOPIC", "--alter", *arguments)


def java(*arguments: str) -> Ask:
    """Java's Admin: the errors of all topics, in the order of their names."""

    def ask(where: Where, topic: str) -> str:
        given = [one.replace("TOPIC", topic) for one in arguments]
        out = where.java.run("AskingAdmin", where.bootstrap, *given)
        return ", ".join(line.split()[1] for line in sorted(out.splitlines()))

    return ask


def go(client: str, *arguments: str) -> Ask:
    return lambda where, topic: go_clients.run(
        client, where.bootstrap, *(one.replace("TOPIC", topic) for one in arguments)
    )


def _named(error: KafkaError | None) -> str:
    name: str = error.name() if error is not None else "NO_ERROR"
    return {"NO_ERROR": DONE, "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION"}.get(name, name)


def librdkafka(call: Callable[[AdminClient, str], Mapping[Any, Any]]) -> Ask:
    def ask(where: Where, topic: str) -> str:
        admin = AdminClient({"bootstrap.servers": where.bootstrap}, logger=SILENT)
        found = []
        for future in call(admin, topic).values():
            try:
                future.result(LIMIT_S)
                found.append(DONE)
            except KafkaException as error:
                found.append(_named(error.args[0]))
        return ", ".join(found)

    return ask


def created(partitions: int, only: bool = False, **configs: str) -> Ask:
    values = {name.replace("_", "."): value for name, value in configs.items()}
    return librdkafka(
        lambda admin, topic: admin.create_topics([NewTopic(topic, partitions, 1, config=values)], validate_only=only)
    )


def three(admin: AdminClient, topic: str) -> Mapping[str, Any]:
    topics = [
        NewTopic(topic, 3, 1, config=GOOD),
        NewTopic(f"{topic}.1", 1, 1, config=GOOD),
        NewTopic(f"{topic}.2", 3, 1),
    ]
    return admin.create_topics(topics)


def changed(name: str, operation: AlterConfigOpType, value: str | None) -> Ask:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    return librdkafka(
        lambda admin, topic: admin.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])]
        )
    )


def replaced(**configs: str) -> Ask:
    values = {name.replace("_", "."): value for name, value in configs.items()}

    def call(admin: AdminClient, topic: str) -> Mapping[Any, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it is what is tried
            return admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=values)])

    return librdkafka(call)


def sent(where: Where, topic: str) -> str:
    """A record for a topic that the broker would have to create."""
    errors: list[KafkaError | None] = []
    settings = {"bootstrap.servers": where.bootstrap, "logger": SILENT, "message.timeout.ms": 4000}
    producer = Producer(settings)
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    return _named(errors[0])


def kafka_python(call: Callable[[Any, str], Any]) -> Ask:
    def ask(where: Where, topic: str) -> str:
        with KafkaAdminClient(bootstrap_servers=where.bootstrap) as admin:
            try:
                call(admin, topic)
            except python_errors.BrokerResponseError as error:
                return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__.removesuffix("Error")).upper()
        return DONE

    return ask


def python_configs(admin: Any, topic: str) -> None:
    found = admin.alter_configs([PythonResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "1"})])
    if "policy" in str(found).lower():
        raise python_errors.PolicyViolationError


def aiokafka(partitions: int) -> Ask:
    async def asked(bootstrap: str, topic: str) -> str:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            found = await admin.create_topics([AioNewTopic(topic, partitions, 1, topic_configs=GOOD)])
        finally:
            await admin.close()
        ((_, code, *_),) = found.topic_errors
        return {0: DONE, 44: REFUSED}[code]

    return lambda where, topic: asyncio.run(asked(where.bootstrap, topic))
