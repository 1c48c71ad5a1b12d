"""Who requests come from: passwords and tokens of files, and tokens of an endpoint that are kept until they expire."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.sasl import CLIENT_ID, CLIENT_SECRET, TokenEndpoint, token_endpoint

from kafka_sidecar.outbound.http import OutboundError
from kafka_sidecar.outbound.login import Login


@pytest.fixture(name="endpoint")
def _endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint(lifetime_s=60) as endpoint:
        yield endpoint


def test_without_a_login_there_is_no_header() -> None:
    assert Login().headers() == {}


def test_a_password_may_be_given_or_be_in_a_file(tmp_path: Path) -> None:
    expected = {"Authorization": "Basic " + base64.b64encode("app:pä:ss".encode()).decode()}
    (tmp_path / "password").write_text("pä:ss\r\n")
    assert Login("app", "pä:ss").headers() == expected
    assert Login("app", password_file=str(tmp_path / "password")).headers() == expected


def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    login = Login(token_file=str(file))
    for text in ("one\n", " two \n"):
        file.write_text(text)
        assert login.headers() == {"Authorization": f"Bearer {text.strip()}"}


@pytest.mark.parametrize("content", [b"", b"\xff", b"a\r\nX-Other: b", "ü".encode()])
def test_a_file_that_has_no_token_is_an_error_that_does_not_quote_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(OutboundError, match=f"^{tmp_path / 'token'} (is|has no)") as error:
        Login(token_file=str(tmp_path / "token")).headers()
    assert error.value.outcome == "login"
    assert "X-Other" not in str(error.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(OutboundError, match=r"^none cannot be read: No such file"):
        Login("app", password_file="none").headers()


def test_a_token_of_an_endpoint_is_kept_and_renewed_in_time(endpoint: TokenEndpoint) -> None:
    now = time.time()
    login = Login(
        token_endpoint=endpoint.url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, scope="a b", now=lambda: now
    )
    first = login.headers()
    assert first["Authorization"].startswith("Bearer ey")
    assert login.headers() == first
    assert endpoint.requests == ["grant_type=client_credentials&scope=a+b"]
    now += 50
    login.headers()
    assert len(endpoint.requests) == 2


def test_after_a_rejection_there_is_another_token(endpoint: TokenEndpoint) -> None:
    login = Login(token_endpoint=endpoint.url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    login.headers()
    login.forget()
    login.headers()
    assert len(endpoint.requests) == 2


def test_an_endpoint_that_rejects_the_client_is_an_error_without_the_secret(endpoint: TokenEndpoint) -> None:
    login = Login(token_endpoint=endpoint.url, client_id=CLIENT_ID, client_secret="wrong-secret")
    for _ in range(3):
        with pytest.raises(OutboundError, match=r"no token: .*/token responds with 401: see client_id") as error:
            login.headers()
        assert "wrong-secret" not in str(error.value)
    assert len(endpoint.requests) == 1  # not once for each of those who wait
