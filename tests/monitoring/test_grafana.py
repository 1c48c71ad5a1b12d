"""Grafana's own models of a dashboard read every field of it: no name is misspelt, no type is wrong."""

from __future__ import annotations

import json

import pytest
from support.monitoring.__main__ import DASHBOARD

pytestmark = pytest.mark.monitoring


def test_grafanas_models_give_back_every_field_of_the_dashboard() -> None:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    written = json.loads(DASHBOARD.read_text())
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert list(missing(written, read, "")) == []


def missing(written: object, read: object, path: str) -> list[str]:
    """The places of what was written and is not read as such."""
    match written, read:
        case dict(), dict():
            return [
                one
                for key in written
                for one in (missing(written[key], read[key], f"{path}/{key}") if key in read else [f"{path}/{key}"])
            ]
        case list(), list() if len(written) == len(read):
            return [
                one
                for number, pair in enumerate(zip(written, read, strict=True))
                for one in missing(*pair, f"{path}/{number}")
            ]
    return [] if written == read else [path]
