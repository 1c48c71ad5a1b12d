"""The table of pages, without HTTP."""

from __future__ import annotations

import json

import pytest
from support.in_process import config

from kafka_sidecar.proxy.server.admin.page import json_page
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics


@pytest.fixture
async def admin() -> Admin:
    return Admin(Server(config("127.0.0.1:1"), Metrics()))


def test_a_page_of_a_value_is_one_line_of_json() -> None:
    page = json_page(200, {"live": True})
    assert (page.status, page.content_type, page.body) == (200, "application/json", b'{"live": true}\n')


async def test_the_query_of_a_target_is_ignored(admin: Admin) -> None:
    assert admin.page("/livez?verbose=1").status == 200
    assert admin.page("/livez/?verbose=1").status == 404


async def test_only_metrics_have_to_wait_and_only_after_they_were_rendered(admin: Admin) -> None:
    assert [admin.wait_s(target) for target in ("/metrics", "/livez")] == [0.0, 0.0]
    admin.page("/metrics")
    assert 0.0 < admin.wait_s("/metrics?name[]=x") <= 1.0
    assert admin.wait_s("/livez") == 0.0


async def test_a_page_that_is_forbidden_names_the_setting(admin: Admin) -> None:
    page = admin.page("/metrics", host="attacker.example.com")
    assert (page.status, "admin.allowed_hosts" in json.loads(page.body)["error"]) == (403, True)
