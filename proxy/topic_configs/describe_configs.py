"""DescribeConfigs: the sidecar's own configs are shown among those that the broker shows of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_sidecar.proxy.relay.exchange import Exchange
from kafka_sidecar.proxy.topic_configs.apis import TOPIC
from kafka_sidecar.proxy.topic_configs.definitions import OwnConfig
from kafka_sidecar.proxy.topic_configs.keeper import Keeper

# Kafka's DescribeConfigsResponse.ConfigSource and ConfigType
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5
STRING = 2


class Description(Exchange):
    """One request that asks for configs, and its response.

    The request passes as it came: a name that the broker does not know adds nothing to its answer.
    """

    __slots__ = ("_asked", "_documented", "_keeper", "_synonyms", "_version")

    def __init__(self, version: int, keeper: Keeper) -> None:
        self._version, self._keeper = version, keeper
        self._asked: dict[str, list[OwnConfig]] = {}  # of each topic
        self._synonyms = self._documented = False

    def request(self, frame: bytes) -> bytes:
        if self._keeper.trouble is None:
            request = decode_request(DescribeConfigsRequest, frame)[1].message
            self._synonyms, self._documented = request.include_synonyms, request.include_documentation
            for resource in request.resources:
                if resource.resource_type == TOPIC:
                    self._asked[resource.resource_name] = self._wanted(resource.configuration_keys)
        return frame

    def _wanted(self, keys: Iterable[str] | None) -> list[OwnConfig]:
        # Null asks for all; so does an empty list, of a broker.
        own = self._keeper.own
        return [own[name] for name in own if not keys or name in keys]

    @property
    def wants_response(self) -> bool:
        return any(self._asked.values())

    def response(self, frame: bytes) -> bytes:
        opened = decode_response(DescribeConfigsResponse, frame, self._version)
        response = opened.message
        return opened.with_message(replace_fields(response, results=tuple(map(self._described, response.results))))

    def _described(self, result: DescribeConfigsResult) -> DescribeConfigsResult:
        if result.resource_type != TOPIC or result.error_code != ErrorCode.NONE:
            return result
        is_set = self._keeper.entries.configs(result.resource_name)
        shown = (self._shown(config, is_set) for config in self._asked.get(result.resource_name, ()))
        return replace_fields(result, configs=(*result.configs, *shown))

    def _shown(self, config: OwnConfig, is_set: Mapping[str, str]) -> DescribeConfigsResourceResult:
        value = is_set.get(config.name)
        synonym = DescribeConfigsSynonym(name=config.name, value=value, source=DYNAMIC_TOPIC_CONFIG)
        return DescribeConfigsResourceResult(
            name=config.name,
            value=value,
            config_source=DEFAULT_CONFIG if value is None else DYNAMIC_TOPIC_CONFIG,
            synonyms=(synonym,) if self._synonyms and value is not None else (),
            config_type=STRING,
            documentation=config.documentation if self._documented else None,
        )
