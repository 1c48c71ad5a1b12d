"""With a token file, pages are for those who have the token; probes need none."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.admin import get, pages, protocols

from kafka_sidecar.proxy.server.admin.access import AdminToken, TokenError

TOKEN = "0123456789abcdef"


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path / "token"


@pytest.mark.parametrize(
    ("target", "authorization", "is_allowed"),
    [
        ("/metrics", f"Bearer {TOKEN}", True),
        ("/metrics", f"bearer  {TOKEN}", True),
        ("/metrics", None, False),
        ("/metrics", TOKEN, False),
        ("/metrics", f"Basic {TOKEN}", False),
        ("/metrics", f"Bearer {TOKEN}x", False),
        ("/livez", None, True),
        ("/readyz", None, True),
        ("/readyz?verbose", None, False),
        ("/livez/../metrics", None, False),
        ("//livez", None, False),
    ],
)
def test_only_probes_need_no_token(file: Path, target: str, authorization: str | None, is_allowed: bool) -> None:
    header = authorization.encode() if authorization is not None else None
    assert AdminToken(file).allows(target, header) is is_allowed


def test_a_new_token_applies_at_once_and_an_unusable_one_is_rejected(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = AdminToken(file)
    file.write_text("another-token-of-the-admin-port")
    assert token.allows("/metrics", b"Bearer another-token-of-the-admin-port")
    assert not token.allows("/metrics", f"Bearer {TOKEN}".encode())
    file.write_text("short")
    assert token.allows("/metrics", b"Bearer another-token-of-the-admin-port")
    assert "admin token rejected" in caplog.text
    assert "short" not in caplog.text.replace("no token", "")


@pytest.mark.parametrize("text", ["", "short", "with a space in the token", "schlüssel-schlüssel"])
def test_a_file_without_a_usable_token_is_an_error_that_does_not_quote_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(TokenError, match="at least 16 ASCII characters") as raised:
        AdminToken(tmp_path / "token")
    assert not text or text not in str(raised.value)
    with pytest.raises(TokenError, match="name a readable file"):
        AdminToken(tmp_path / "missing")


async def test_a_page_without_the_token_is_401_and_says_what_is_missing(file: Path) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        protocols[-1].token = AdminToken(file)
        status, headers, body = await get(port, "/metrics")
        assert (status, headers["www-authenticate"]) == (401, "bearer")
        assert b"admin.token_file" in body
        assert (await get(port, "/livez"))[0] == 200
