"""Pages, and the hosts by which they may be requested."""

from __future__ import annotations

import pytest
from support.in_process import config

from kafka_sidecar.proxy.server.admin.page import is_host_allowed, json_page


def test_a_page_of_a_value_is_one_line_of_json() -> None:
    page = json_page(200, {"live": True})
    assert (page.status, page.content_type, page.body) == (200, "application/json", b'{"live": true}\n')


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:9190", True),
        ("[::1]:9190", True),
        ("localhost", True),
        ("Gateway.example.com:9190", True),
        ("a.metrics.example.com", True),
        ("attacker.example.com", False),
    ],
)
def test_a_host_is_an_address_or_a_known_name(host: str, allowed: bool) -> None:
    admin = {"allowed_hosts": ["*.metrics.example.com"]}
    settings = config("127.0.0.1:1", admin=admin, nodes={"advertised_host": "gateway.example.com"})
    assert is_host_allowed(host, settings) is allowed
