"""DescribeConfigs: the sidecar's own configs appear among those that the broker describes of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_sidecar.proxy.exchanges.messages import MessageRun, MessageStage, OpenMessage
from kafka_sidecar.proxy.exchanges.rejections import TOPIC_RESOURCE
from kafka_sidecar.proxy.features.topic_configs.definitions import OwnConfig
from kafka_sidecar.proxy.features.topic_configs.keeper import Keeper
from kafka_sidecar.proxy.relay.exchange import TURN, Client, Steps

# Kafka's DescribeConfigsResponse.ConfigSource and ConfigType
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5
STRING = 2


class DescribeConfigs(MessageStage):
    """The stage of DescribeConfigs."""

    name = "topic configs"

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def start(self, client: Client, version: int) -> DescribeConfigsRun | None:
        return DescribeConfigsRun(self._keeper) if version >= APIS[ApiKey.DESCRIBE_CONFIGS].min_version else None


class DescribeConfigsRun(MessageRun):
    """One DescribeConfigs request and its response.

    The request goes to the broker as it came: a name that the broker does not know adds nothing to its response.
    """

    __slots__ = ("_documented", "_keeper", "_synonyms", "_wanted")

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._wanted: dict[str, list[OwnConfig]] = {}  # by topic
        self._synonyms = self._documented = False

    @property
    def wants_response(self) -> bool:
        return any(self._wanted.values())

    def request(self, request: OpenMessage) -> Steps[None]:
        if self._keeper.trouble is None:
            message = yield from request.read(DescribeConfigsRequest)
            self._synonyms, self._documented = message.include_synonyms, message.include_documentation
            for resource in message.resources:
                if resource.resource_type == TOPIC_RESOURCE:
                    self._wanted[resource.resource_name] = self._own_among(resource.configuration_keys)
                yield TURN

    def response(self, response: OpenMessage) -> Steps[None]:
        message = yield from response.read(DescribeConfigsResponse)
        results = []
        for result in message.results:
            results.append(self._add_own(result))
            yield TURN
        response.replace(replace_fields(message, results=tuple(results)))

    def _own_among(self, keys: Iterable[str] | None) -> list[OwnConfig]:
        # Null asks for all; so does an empty list, of a broker.
        return [config for name, config in self._keeper.own.items() if not keys or name in keys]

    def _add_own(self, result: DescribeConfigsResult) -> DescribeConfigsResult:
        if result.resource_type != TOPIC_RESOURCE or result.error_code != ErrorCode.NONE:
            return result
        values = self._keeper.entries.configs(result.resource_name)
        own = (self._describe(config, values) for config in self._wanted.get(result.resource_name, ()))
        return replace_fields(result, configs=(*result.configs, *own))

    def _describe(self, config: OwnConfig, values: Mapping[str, str]) -> DescribeConfigsResourceResult:
        value = values.get(config.name)
        synonym = DescribeConfigsSynonym(name=config.name, value=value, source=DYNAMIC_TOPIC_CONFIG)
        return DescribeConfigsResourceResult(
            name=config.name,
            value=value,
            config_source=DEFAULT_CONFIG if value is None else DYNAMIC_TOPIC_CONFIG,
            synonyms=(synonym,) if self._synonyms and value is not None else (),
            config_type=STRING,
            documentation=config.documentation if self._documented else None,
        )
