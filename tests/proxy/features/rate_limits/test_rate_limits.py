"""The limits of a configuration as a sidecar loads, reloads and rejects them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.client import FakeClient
from support.features import load, started
from support.produce_requests import batch, produce_request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import load as load_file
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import Features, find_mistakes
from kafka_sidecar.proxy.features.rate_limits.rate_limits import RateLimits
from kafka_sidecar.proxy.features.rate_limits.taps import FetchTap, ProduceTap, RequestTap, ShareFetchTap
from kafka_sidecar.proxy.relay.watch_pairs import TapPair

SHOP: dict[str, Any] = {"name": "shop", "produce_bytes": 1000}
LOOKING = {"type": "latency"}
ALL = {"name": "all", "requests": 1000, "consume_bytes": 1}
FRAME = produce_request(9, {"orders": {0: batch("x" * 900)}})


def limited(*entries: dict[str, Any], **settings: Any) -> Features:
    return started(LOOKING, rate_limits=list(entries), **settings)


def kinds(features: Features) -> dict[str, type | None]:
    keys = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS)
    taps = {key.name: features.tap(key, 1) for key in keys}
    return {name: type(tap) if tap is not None else None for name, tap in taps.items()}


def test_requests_are_watched_as_far_as_limits_count_them() -> None:
    assert kinds(limited(SHOP)) == {
        "PRODUCE": ProduceTap, "FETCH": FetchTap, "SHARE_FETCH": ShareFetchTap, "METADATA": None, "API_VERSIONS": None,
    }  # fmt: skip
    assert kinds(limited(SHOP, ALL))["METADATA"] is RequestTap
    assert set(kinds(limited({**SHOP, "action": "reject"})).values()) == {None}


def test_an_audit_sees_the_same_requests() -> None:
    found = kinds(limited(ALL, audit={"topic": "audit", "emitter_id": "one"}))
    assert (found["PRODUCE"], found["METADATA"]) == (TapPair, RequestTap)


def sent(features: Features, client: FakeClient) -> float:
    """Send a request; until when the client is muted."""
    tap = features.tap(ApiKey.PRODUCE, 9)
    if tap is not None:
        watch = tap.begin(client, None, 0.0)
        watch.request(FRAME, 0, len(FRAME), True)
    return client.muted_until


def test_a_reload_keeps_what_is_owed_to_a_limit_that_has_not_changed() -> None:
    features, client = limited(SHOP), FakeClient()
    assert sent(features, client) == 0
    load(features, LOOKING, rate_limits=[SHOP, ALL])
    assert sent(features, client) > 0
    changed = FakeClient()
    load(features, LOOKING, rate_limits=[{**SHOP, "produce_bytes": 1001}])
    assert sent(features, changed) == 0
    load(features, LOOKING)
    for _ in range(9):
        assert sent(features, changed) == 0
    assert features.tap(ApiKey.PRODUCE, 9) is None


def test_limits_that_come_with_a_reload_apply() -> None:
    features, client = started(LOOKING), FakeClient()
    assert "rate_limits" not in features.made
    load(features, LOOKING, rate_limits=[SHOP])
    sent(features, client)
    assert sent(features, client) > 0


def test_metrics_of_each_limit_are_there_from_the_start() -> None:
    feature = limited(SHOP, ALL).made["rate_limits"]
    assert isinstance(feature, RateLimits)
    samples = {family.name: family.samples for family in feature.families()}
    assert samples["rate_limit_throttled"] == {("shop",): 0, ("all",): 0}
    assert samples["rate_limit_bytes"].keys() == {
        ("shop", "produce"), ("shop", "consume"), ("all", "produce"), ("all", "consume"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  - {produce_bytes: 1}", 2, "name: is missing: set it"),
        ("  - {name: shop}", 2, "limits nothing: set one of produce_bytes"),
        ("  - {name: a b, requests: 1}", 2, "name"),
        ("  - {name: shop, requests: 1, action: reject}", 2, "requests cannot be rejected, only what is produced"),
        ("  - {name: shop, consume_bytes: 1, action: reject}", 2, "consume_bytes cannot be rejected"),
        ("  - {name: shop, produce_bytes: 0}", 2, "produce_bytes"),
        ("  - {name: shop, produce_bytes: 1 MB}", 2, 'write a number of bytes or a size such as "64KiB"'),
        ("  - {name: shop, requests: 1, per: [team]}", 2, "per"),
        ("  - {name: shop, requests: 1, burst: 0s}", 2, "burst"),
        ("  - {name: shop, requests: 1, principals: [alice]}", 2, "did you mean 'User:alice'?"),
        ("  - {name: shop, requests: 1, topics: ['a b']}", 2, "no topic can match"),
        (
            "  - {name: shop, requests: 1}\n  - {name: shop, requests: 2}",
            1,
            "2 limits have the name shop",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_remedy(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(
        f"bootstrap_servers: kafka:9092\nrate_limits:\n{text}\n".replace("rate_limits:\n", "rate_limits:\n")
    )
    with pytest.raises(ConfigError) as error:
        load_file(path, {}, {}, find_mistakes)
    (only,) = error.value.lines
    assert message in only, only
    assert f"{path.name}:{line + 1}" in only, only
